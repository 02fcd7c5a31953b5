"""Small shards, a small tokenizer, and a server on this machine, for the tests of the data stages."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xsa.data.tokenizer import Tokenizer
from xsa.store.files import sha256_file
from xsa.study.stages import ShardStage, TokenizerStage, TokensStage


def _sentences(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 7))) for _ in range(300)]
    return [" ".join(rng.choices(words, k=rng.randint(1, 40))) + "." for _ in range(count)]


@pytest.fixture(scope="session")
def sentences():
    """`sentences(count, seed)`: documents of a few made-up words."""
    return _sentences


@pytest.fixture(scope="session")
def write_shard():
    """`write_shard(path, texts, row_group_size)`: a parquet file with the one column `text`."""

    def write(path: Path, texts: list, row_group_size: int = 50) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), path, row_group_size=row_group_size)
        return path

    return write


@pytest.fixture(scope="session")
def small_tokenizer() -> Tokenizer:
    return Tokenizer.train(_sentences(400), 300)


@pytest.fixture
def local_shard(tmp_path, run_stage, write_shard):
    """`local_shard(texts, row_group_size)`: the result of the stage `shard` on them."""
    count = 0

    def make(texts: list[str], row_group_size: int = 50) -> Path:
        nonlocal count
        count += 1
        path = write_shard(tmp_path / "source" / f"part-{count}.parquet", texts, row_group_size)
        settings = ShardStage(kind="local", name=path.name, sha256=sha256_file(path))
        return run_stage("shard", settings, source={"path": str(path)})

    return make


@pytest.fixture
def tokenized(run_stage, local_shard):
    """`tokenized(texts, row_group_size)`: results of the stages `tokens` and `tokenizer` on them."""

    def make(texts: list[str], row_group_size: int = 50) -> tuple[Path, Path]:
        words = local_shard(_sentences(200))
        tokenizer = run_stage(
            "tokenizer", TokenizerStage(vocab_size=280, max_chars=10**6, doc_cap=1000), shards=[words]
        )
        shard = local_shard(texts, row_group_size)
        return run_stage("tokens", TokensStage(), shard=shard, tokenizer=tokenizer), tokenizer

    return make


@dataclass
class Server:
    """A web server on the loopback. `answers[path]` gives the reply to a request: (status, headers, body).

    A header `Cut: n` is not sent; it ends the connection after n bytes of the body, and `Stall: n` says nothing more after n
    bytes until the test is over.
    """

    url: str
    answers: dict[str, Callable[[BaseHTTPRequestHandler], tuple[int, dict, bytes]]] = field(default_factory=dict)
    requests: list[tuple[str, dict]] = field(default_factory=list)

    def publish(self, path: str, body: bytes) -> None:
        """Serve a file properly: with an ETag, and parts when they are asked for."""

        def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict, bytes]:
            tag = f'"{len(body)}-{hash(body)}"'
            part = request.headers.get("Range")
            if part and request.headers.get("If-Range") == tag:
                start = int(part.removeprefix("bytes=").removesuffix("-"))
                span = f"bytes {start}-{len(body) - 1}/{len(body)}"
                return 206, {"ETag": tag, "Content-Range": span}, body[start:]
            return 200, {"ETag": tag}, body

        self.answers[path] = answer

    def first(self, path: str, *faults: tuple[int, dict]) -> None:
        """Let the first requests of a published file fail: each by a status of its own and headers added."""
        whole, waiting = self.answers[path], list(faults)

        def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict, bytes]:
            status, headers, body = whole(request)
            if waiting:
                fault, more = waiting.pop(0)
                return (status if fault == 200 else fault), headers | more, body if fault == 200 else b"no"
            return status, headers, body

        self.answers[path] = answer


@pytest.fixture
def server():
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.requests.append((self.path, dict(self.headers)))
            answer = shown.answers.get(self.path)
            status, headers, body = answer(self) if answer else (404, {}, b"")
            cut, stall = headers.pop("Cut", None), headers.pop("Stall", None)
            self.send_response(status)
            for name, value in ({"Content-Length": len(body)} | headers).items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body if cut is None and stall is None else body[: cut or stall])
            if stall is not None:
                self.wfile.flush()
                over.wait(20)
            self.close_connection = True

        def log_message(self, *arguments) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    shown = Server(f"http://127.0.0.1:{web.server_port}")
    yield shown
    over.set()
    web.shutdown()
    web.server_close()
    thread.join()
