from __future__ import annotations

import json
import statistics
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.rendering.descriptions import describe_tools
from mcpx.core.rendering.tokens import estimate, estimate_result
from mcpx.core.rendering.toon import encode, read_json
from tests import tokens
from tests.mcpx.core.rendering.snapshots import corpus


def real(texts):
    """The count of each text in the dearer encoding."""
    return [max(pair) for pair in zip(*tokens.count(texts).values(), strict=True)]


def test_no_text_costs_nothing():
    assert estimate("") == 0


@given(st.text(), st.text())
def test_lines_may_be_added_up(one, other):
    assert estimate(one + "\n" + other) <= estimate(one) + 1 + estimate(other)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_no_character_is_free(text):
    assert estimate(text) >= max(1, len(text) // 12)


def test_lone_surrogates_and_controls_are_counted_and_not_an_error():
    assert estimate("a\ud800\x00b") >= 3


@pytest.mark.corpus
@pytest.mark.parametrize("budget", [60_000, 9000, 5200, 4000, 2500, 1500, 600])
def test_listings_of_the_corpus_are_never_underestimated(budget):
    text = describe_tools(corpus(), budget=budget)
    assert estimate(text) >= real([text])[0]


@pytest.mark.corpus
def test_english_and_identifiers_are_overestimated_by_15_percent_at_most():
    english = [one for one in corpus() if describe_tools([one], budget=10_000).isascii()]
    assert len(english) > 30
    for budget in (60_000, 4000, 2200):
        text = describe_tools(english, budget=budget)
        assert real([text])[0] <= estimate(text) <= 1.15 * real([text])[0]


@pytest.mark.corpus
def test_the_prose_of_the_corpus_is_estimated_within_15_percent():
    told = [item.description or "" for one in corpus() for item in one.tools.values()]
    text = "\n".join(line for line in told if line.isascii())
    assert len(text) > 20_000
    assert real([text])[0] <= estimate(text) <= 1.15 * real([text])[0]


SCRIPTS = {
    "chinese": "糖尿病是一种慢性代谢性疾病。其特征是血糖水平长期升高。主要症状包括多饮、多尿、体重下降。",
    "traditional": "請檢查檔案系統並讀取伺服器資源。說明繁體中文測試。",
    "japanese": "このツールはファイルを読み込み、サーバーのリソースを検索してデータベースに接続します。",
    "korean": "이 도구는 파일을 읽고 서버의 리소스를 검색하여 데이터베이스에 연결합니다.",
    "russian": "Этот инструмент читает файлы и ищет ресурсы сервера; пользователь может изменить настройки.",
    "greek": "Αυτό το εργαλείο διαβάζει αρχεία και αναζητά πόρους του διακομιστή.",
    "arabic": "تقرأ هذه الأداة الملفات وتبحث عن موارد الخادم وتتصل بقاعدة البيانات.",
    "hebrew": "הכלי הזה קורא קבצים ומחפש משאבי שרת, המשתמש יכול לשנות את ההגדרות.",
    "thai": "เครื่องมือนี้อ่านไฟล์และค้นหาทรัพยากรของเซิร์ฟเวอร์ผู้ใช้สามารถเปลี่ยนการตั้งค่าได้",
    "hindi": "यह उपकरण फ़ाइलें पढ़ता है और सर्वर संसाधनों की खोज करता है।",
    "georgian": "ეს ინსტრუმენტი კითხულობს ფაილებს და ეძებს სერვერის რესურსებს.",
    "german": "Dieses Werkzeug liest Dateien und durchsucht Serverressourcen; Benutzer können sie ändern.",
    "french": "Cet outil lit les fichiers et recherche les ressources du serveur, déjà enregistrées.",
    "vietnamese": "Công cụ này đọc tệp và tìm kiếm tài nguyên máy chủ.",
    "emoji": "😀🚀📁✅❌🔍📊💡🎉🐍🌐",
}


@pytest.mark.corpus
@pytest.mark.parametrize("script", SCRIPTS)
def test_no_script_is_underestimated_or_more_than_doubled(script):
    text = SCRIPTS[script]
    assert real([text])[0] <= estimate(text) <= 2.3 * real([text])[0]


# Results


SESSIONS = Path(tokens.__file__).parent / "data" / "livemcpbench" / "sessions.json"


def recorded_results():
    """The texts of the recorded results: as they came, and JSON also compact and as TOON."""
    steps = [step for session in json.loads(SESSIONS.read_text())["sessions"] for step in session["steps"]]
    blocks = [block for step in steps for block in step.get("content", [])]
    texts = {block["text"] for block in blocks if len(block.get("text", "")) >= 20}
    sources = [source for source in map(read_json, texts) if source]
    compact = [msgspec.json.encode(source.value).decode() for source in sources]
    return {"raw": sorted(texts), "compact": compact, "toon": [encode(source.value) for source in sources]}


@pytest.mark.corpus
def test_recorded_results_are_estimated_within_9_percent_in_the_mean_and_7_in_sum():
    for texts in recorded_results().values():
        counted = tokens.count(texts)["o200k_base"]
        estimates = list(map(estimate_result, texts))
        errors = [abs(one / other - 1) for one, other in zip(estimates, counted, strict=True)]
        assert statistics.mean(errors) < 0.09
        assert abs(sum(estimates) / sum(counted) - 1) < 0.07


@pytest.mark.corpus
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_result_in_any_script_is_estimated_within_60_percent(script):
    text = SCRIPTS[script]
    assert abs(estimate_result(text) / tokens.count([text])["o200k_base"][0] - 1) < 0.6


@given(st.text())
def test_no_result_is_estimated_below_nothing(text):
    assert 0 <= estimate_result(text) <= 2 * len(text)


@pytest.mark.parametrize("line", ["2026-11-22 INFO it works\n", '{"id":1,"name":"x"},', "表格数据\n"])
def test_a_long_text_is_estimated_by_samples_as_it_is_whole(line):
    count = 16_000 // len(line)
    assert estimate_result(line * count * 50) == pytest.approx(50 * estimate_result(line * count), rel=0.02)
