"""Words that people and tools use for the same thing: data of the search.

One group a line. A word may be in several groups; what follows from it is weighed by how rare a group is in
what the servers offer, so that wide groups (`get read show`) decide little. Kept general: nothing here names
a server's own things.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from mcpx.core.catalog.words import words

_GROUPS: Final = """
add append insert attach
add create make new generate build write
add sum plus calculate compute calculator math arithmetic total
archive compress gzip zip unzip
branch checkout switch
build compile
calendar schedule event meeting appointment
change edit modify update alter replace patch
change diff difference compare delta
chart plot diagram visualization visualize graph
chat message send post reply notify
check validate verify test
command execute run shell terminal process
commit revision history log
company stock ticker share equity
connection relation relationship link edge
container docker
convert transform translate
cook recipe dish meal food
copy duplicate clone cp
count number many
crypto coin bitcoin cryptocurrency
cut split divide
date time day today clock hour now timezone
delete remove erase drop forget discard rm unlink rid
directory folder dir mkdir path ls subfolder
document doc docx word
download fetch get scrape crawl retrieve request
echo repeat
email mail inbox
entity person people user contact node
environment env variable
fact knowledge observation memory note information remember recall
file document text disk
find search look lookup locate query grep seek discover
flight train ticket travel trip
get read show view display open retrieve see cat content load obtain
github repo repository
headline news article story
hotel airbnb accommodation listing stay
image picture photo png jpg jpeg media screenshot
issue bug ticket
join merge combine concatenate
library package dependency module npm
list enumerate ls browse
location place address geocode map
log logging
long duration slow
market price quote finance financial
mkdir create
modified change uncommitted dirty unstaged status
move rename mv
music song audio track
page web website webpage site url http https internet html online browser
paper publication research study academic arxiv literature
pdf
plan think reason thought brainstorm solve
position route direction navigation
presentation ppt slide powerpoint deck
rank trend trending hot popular top
record row table database sql
reset undo revert unstage rollback restore
save store write put persist record
sheet excel spreadsheet xlsx csv
show list
size big large small length
stage index add
summary summarize overview
switch toggle enable disable turn
task todo
video movie film youtube
weather forecast temperature climate
"""


def groups_of(word: str) -> tuple[str, ...]:
    """The groups that a word of `words` is in, each as a word that no text has."""
    return _by_word().get(word, ())


@cache
def _by_word() -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(_GROUPS.split("\n")):
        for word in dict.fromkeys(words(line)):
            groups[word] = (*groups.get(word, ()), f"={number}")
    return groups
