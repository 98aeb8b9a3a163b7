"""The four papers, figure by figure and claim by claim, from this code.

`study` says what a study is; `iot`, `rw`, `comp`, `wc` hold the papers' figures and claims;
`catalogue` lists them all; `drawing` draws, `study_folders` writes and finds again, `running` runs
many at once.
"""
