"""Descriptors without threads: pipes that fill, peers that leave, files, and how they were before."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import anyio
import pytest

from mcpx.wire import descriptors

pytestmark = pytest.mark.anyio

NOTHING = Path(os.devnull)
LARGE = os.urandom(1 << 20)  # many times what a pipe holds


def opened(path: Path, mode: str):
    """The null device needs no thread to open."""
    return path.open(mode, 0)


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", 0) as reader, os.fdopen(writing, "wb", 0) as writer:
        yield reader, writer


async def read_all(fd: int) -> bytes:
    parts = []
    while chunk := await descriptors.read(fd):
        parts.append(chunk)
    return b"".join(parts)


async def test_more_than_a_pipe_holds_goes_through_whole(pipe):
    reader, writer = pipe
    got = []

    async def collect() -> None:
        got.append(await read_all(reader.fileno()))

    with anyio.fail_after(20), descriptors.nonblocking(reader.fileno(), writer.fileno()):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect)
            await descriptors.write(writer.fileno(), LARGE)
            with opened(NOTHING, "wb") as nothing:
                os.dup2(nothing.fileno(), writer.fileno())  # the pipe's end, while the number stays in use
    assert got == [LARGE]


async def test_a_reader_that_is_gone_is_an_error(pipe):
    reader, writer = pipe
    with descriptors.nonblocking(writer.fileno()):
        reader.close()
        with pytest.raises(OSError) as caught:
            await descriptors.write(writer.fileno(), b"x")
    assert caught.value.errno == errno.EPIPE


async def test_a_read_that_waits_can_be_cancelled(pipe):
    reader, _ = pipe
    with anyio.fail_after(10), descriptors.nonblocking(reader.fileno()), anyio.move_on_after(0.01) as scope:
        await descriptors.read(reader.fileno())
    assert scope.cancelled_caught


async def test_files_and_the_null_device_are_read_to_their_end(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(LARGE)
    with file.open("rb", 0) as whole, opened(NOTHING, "rb") as nothing:
        assert await read_all(whole.fileno()) == LARGE
        assert await read_all(nothing.fileno()) == b""
    with file.open("wb", 0) as whole:
        await descriptors.write(whole.fileno(), b"written")
    assert file.read_bytes() == b"written"


async def test_pipes_are_afterwards_as_they_were_and_files_are_left_alone(pipe, tmp_path):
    reader, writer = pipe
    os.set_blocking(writer.fileno(), False)
    with (tmp_path / "file").open("wb", 0) as file:
        with descriptors.nonblocking(reader.fileno(), writer.fileno(), file.fileno()):
            assert not os.get_blocking(reader.fileno())
            assert os.get_blocking(file.fileno())
        assert os.get_blocking(reader.fileno())
        assert not os.get_blocking(writer.fileno())
