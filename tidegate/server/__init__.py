"""`tidegate serve`: one graph in a process of its own, for several people, by HTTP.

`access` says who may what, `host` runs statements of others under a closed policy, `reads` answers without waiting for epochs, `streaming` tells changes as they
become final, `pushing` takes rows, `app` is the interface, and `serving` the process.
"""
