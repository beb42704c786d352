"""Worker processes, for all work that may take long and cannot be bounded beforehand.

`pool` hands out the turns, `process` is what runs in a worker. A job names a function of a module, and is
given and gives bytes, so this package knows nothing of what is done.
"""
