"""The words of a text, as a search compares them, and those that mean the same thing.

Owns `words`, which the search index and its queries share. Identifiers are cut where people cut them, at
case, digits and punctuation (`getHTTPStatus2` gives get, http, status, 2); English words lose their
endings (Porter's second algorithm, by snowballstemmer), other letters their accents; a run of Chinese,
Japanese, Korean or Thai letters, which has no spaces, gives each pair of neighbours. Words that stand in
nearly every text, and those that people add when they ask for a tool, are left out. Pure; the stemmer is
imported with the first text, or by `load_stemmer`.

Synonyms are data: one group a line, of words for the same thing and of words that are asked for together
(`rain`, `forecast`). A word may be in several groups; what follows from it is weighed by how rare a group is
in what the servers offer, so that wide groups (`get read show`) decide little. They are general knowledge,
written from what MCP servers are commonly about; nothing here names a server's own things. They were tried on
questions for other tools (MetaTool, MCPToolBench++) beside the half of LiveMCPBench that may be seen.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from mcpx.core.system.light_imports import import_alone
from mcpx.core.text import compiled

if TYPE_CHECKING:
    from snowballstemmer.english_stemmer import EnglishStemmer


MAX_WORD_LEN: Final = 40  # letters of one word; a longer one is data, and is cut

_PAIRED: Final = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"  # without spaces
_RUN: Final = rf"\d+|[{_PAIRED}]+|[^\W\d_{_PAIRED}]+"
_IS_PAIRED: Final = f"[{_PAIRED}]"
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MIN_STEMMED_LEN: Final = 4  # letters
_COMMON: Final = """
a about again all am an and any are as at be been by can could did do does e each exactly for from g given
had has have he her him his how i if in inside into is it its just know let like ll m may me might my need
not of on one or our out please re s shall she should so some that the their them then there these they this
those to us use used uses using ve very via want was we were what when where which who will with would you
your mcp server servers tool tools
"""
_STOP_WORDS: Final = frozenset(_COMMON.split())


def words(text: str) -> list[str]:
    """The words of `text` in order, folded and stemmed; a word that stands there twice is given twice."""
    found: list[str] = []
    for run in compiled(_RUN).findall(text):
        if run.islower() and run.isascii():
            if run not in _STOP_WORDS:
                found.append(_stem(run[:MAX_WORD_LEN]))
        elif run.isascii():
            parts = (part.lower() for part in _CAMEL.findall(run)) if run.isalpha() else (run,)
            found += [_stem(part[:MAX_WORD_LEN]) for part in parts if part not in _STOP_WORDS]
        elif compiled(_IS_PAIRED).match(run):
            found += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
        else:
            found.append(_folded(run[:MAX_WORD_LEN]))
    return found


@lru_cache(maxsize=16384)
def _stem(word: str) -> str:
    if len(word) < _MIN_STEMMED_LEN:
        return word
    stem: str = load_stemmer().stemWord(word)
    return stem


def _folded(word: str) -> str:
    """A word beyond ASCII without case and accents; stemmed where ASCII is left of it."""
    letters = unicodedata.normalize("NFKD", word.casefold())
    plain = "".join(each for each in letters if not unicodedata.combining(each))
    return _stem(plain) if plain.isascii() else plain


@cache
def load_stemmer() -> EnglishStemmer:
    """Import and return the stemmer, without those of forty other languages; for those who search."""
    stemmer: EnglishStemmer = import_alone("snowballstemmer.english_stemmer").EnglishStemmer()
    return stemmer


_GROUPS: Final = """
account balance bank billing charge checkout invoice pay payment refund subscription transaction
action build ci job pipeline run workflow
add append attach insert
add create make new generate build write
add sum plus calculate compute calculator math arithmetic total
air aqi pollution quality
airline airport flight plane
alarm alert incident monitor notification oncall
algorithm challenge coding contest exercise leetcode problem programming
animation effect motion transition
apartment house housing property rent rental room
appointment book booking reservation reserve
archive compress gzip zip unzip
art artist artwork drawing exhibition gallery museum painting sculpture sketch
ask answer question
astrology birth fortune horoscope zodiac
attraction landmark poi sight sightseeing tourism tourist
audio beat bpm chord listen melody music pitch rhythm song sound tempo
auth authentication credential login password secret token
author book ebook novel reading
average mean median percent percentage ratio
backup restore snapshot
bar cafe dining eat food restaurant
barcode qr
decode encode encoding
blockchain crypto defi ethereum nft token wallet
blob bucket object storage upload
board backlog epic kanban sprint story ticket
bold font format italic style
branch checkout switch
brainstorm mind mindmap outline
build compile
button click press tap
calendar schedule event meeting appointment
caption subtitle transcript transcription
car driving drive road traffic vehicle
card deck
career cv hiring interview job recruitment resume
census dataset open public statistic
champion character esports game gaming hero league match player team
change diff difference compare delta
change edit modify update alter replace patch
channel discord slack thread
charge charging electric ev station
chart graph plot figure diagram visualization visualize
chat message send post reply notify
check validate verify test
chess board move opening
choose dropdown option pick select
citation bibliography doi endnote footnote reference
city country region state
class code function method program script source
clinical disease drug health hospital medical medicine patient symptom treatment trial
cluster deployment kubernetes namespace node pod
coin crypto cryptocurrency bitcoin btc eth
color colour palette
column cell row table
command console execute run shell terminal process
commit revision history log
commodity gold metal oil silver
company stock ticker share equity
component frontend interface ui widget
connection relation relationship link edge
container compose docker image
convert transform translate
convert celsius fahrenheit kilogram measurement meter mile pound unit
cook recipe dish meal food ingredient menu
coordinate latitude longitude location gps position
copy duplicate clone cp
count number many
course exam learn lesson study teach tutor tutorial
crm customer client deal lead contact opportunity
cron schedule timer
currency dollar euro exchange forex fx pound rate usd yen yuan
cut split divide
date time day today tomorrow yesterday clock hour now timezone utc
deal discount product purchase buy shop shopping store
define definition dictionary meaning synonym word
delete remove erase drop forget discard rm unlink rid
dependency gradle jar java library maven package version
deploy publish release ship
design layout style theme template
device home lamp light sensor thermostat
dice flip lottery random roll shuffle
directory folder dir mkdir path ls subfolder
directory folder tree hierarchy structure
dividend earnings income profit revenue statement
dns domain host hostname ip registrar whois
document doc docx word
documentation doc docs guide manual
download fetch get scrape crawl retrieve request
download save export
duration long slow
echo repeat
email mail inbox gmail outlook
emoji glyph icon logo svg symbol
encrypt lock protect secure unlock password
encyclopedia wiki wikipedia
enter fill form input type
entity person people user contact node
environment env variable
episode podcast season show
equation formula math mathematics multiply root square subtract
error bug debug exception fault crash trace
etf fund portfolio invest investment asset holding
exif metadata property tag attribute
fact knowledge observation memory note information remember recall
fear greed sentiment
file document text disk
film movie cinema tv
find search look lookup locate query grep seek discover
flight train ticket travel trip
flow flowchart diagram process
football basketball soccer sport
gene genetic genome dna mutation protein variant
get read show view display open retrieve see cat content load obtain
github gitlab repo repository
government law legal policy regulation
headline news article story
heading header title
history historical past
hotel airbnb accommodation homestay hostel listing lodging stay
humidity rain snow sunny wind weather forecast
image picture photo png jpg jpeg media screenshot
install installation setup
issue bug ticket
itinerary journey travel trip tour vacation holiday route
javascript js node npm react typescript
join merge combine concatenate
keyword seo
language translate translation
last latest new recent current newest
library package dependency module npm
license terms
list enumerate ls browse
list show
location place address geocode map
log logging
lunar almanac calendar solar
market price quote finance financial
market nasdaq nyse share stock trading
meeting meetup midpoint
member profile user account person
mermaid diagram flowchart
metric monitoring dashboard grafana prometheus
mkdir create
modified change uncommitted dirty unstaged status
move rename mv
music song audio track album playlist
near nearby neighborhood radius vicinity around district local
page web website webpage site url link http https internet html online browser
paper publication research study academic arxiv literature journal preprint scholar
paragraph text sentence
park parking garage
pdf
permission role access policy
plan think reason thought brainstorm solve step
poll survey form
population demographics
position route direction navigation
presentation ppt slide powerpoint deck
price value cost quote
pr pull merge review
question problem issue
railway rail train ticket station subway metro
rank trend trending hot popular top best leaderboard ranking viral
ratings review rating
record row table database sql
reddit facebook social tweet twitter tiktok douyin weibo zhihu bilibili feed
remind reminder alarm
reset undo revert unstage rollback restore
risk security vulnerability cve audit
save store write put persist record
score result standings
screenshot capture snapshot
serverless lambda function
sheet excel spreadsheet xlsx csv
size big large small length
speech speak voice tts
stage index add
summary summarize overview
switch toggle enable disable turn
task todo
tournament schedule match
tree hierarchy organization structure
video movie film youtube
vector embedding semantic rag
weather forecast temperature climate
webhook trigger event
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
