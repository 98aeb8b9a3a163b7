startTable();
if (data.map) startMap().then(() => { document.body.dataset.ready = "true"; });
else document.body.dataset.ready = "true";
