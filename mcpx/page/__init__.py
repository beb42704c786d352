"""The page of the daemon: what runs, what is called, what is saved, in a browser on this computer.

| module | holds |
|---|---|
| `page` | The page as a whole, as the composition root makes it |
| `access` | One-time codes from `mcpx ui`, the sessions that they become, and both kept for the next daemon |
| `guard` | Checks of each request, whatever it is for; and the headers of each response |
| `routes` | The addresses, and the files of `static/` |
| `bundle` | The one script and the one style sheet that are made of them |
| `answers` | The frame of the handlers: JSON, errors, and browsers that leave |
| `events` | The stream of server-sent events: the topics that a page follows |
| `cards` | What is shown of each server, what its processes use, and what the views are given |
| `commands` | Commands of MCPX that are run for what a terminal does |
| `listener` | The page's own listener, where the daemon serves no HTTP on loopback |
| `views/` | The views: their requests, and their topics |
| `static/` | What runs in the browser: plain modules, and the libraries of `vendor/` as they were published |

Everything is made when it is first asked for: a daemon whose page nobody opens has imported none of it but
this package, `page` and `access`. A page that is open costs what its topics cost, and one that is closed
costs nothing.
"""
