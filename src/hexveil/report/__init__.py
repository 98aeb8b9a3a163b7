"""Pages and pictures made from released numbers and public facts."""
