"""The pinned jars: whole or absent, fetched once, and a clear word when that cannot be done.

The repository is a real one over HTTP, on this machine.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tidemark.platform.jvm import jars
from tidemark.platform.jvm.ivy import Artifact
from tidemark.platform.jvm.jars import Jar, JarsMissing, jar_paths, pinned, tidemark_home

CONTENT = {"a": b"first jar" * 1000, "b": b"second jar" * 2000}


class Repository(ThreadingHTTPServer):
    requests: list[str]
    url: str
    refusals: int
    """How many more requests are answered with 503."""


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        assert isinstance(self.server, Repository)
        self.server.requests.append(self.path)
        if self.server.refusals:
            self.server.refusals -= 1
            self.send_error(503)
        else:
            super().do_GET()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    root = tmp_path / "repository"
    for name, content in CONTENT.items():
        place = root / "org" / "example" / name / "1.0"
        place.mkdir(parents=True)
        (place / f"{name}-1.0.jar").write_bytes(content)
    server = Repository(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    server.requests, server.refusals = [], 0
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("TIDEMARK_MAVEN_REPOSITORY", server.url)
    for variable in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(variable, raising=False)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def jar(name: str, content: bytes) -> Jar:
    return Jar(Artifact("org.example", name, "1.0"), len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def pins(monkeypatch: pytest.MonkeyPatch) -> tuple[Jar, ...]:
    both = tuple(jar(name, content) for name, content in CONTENT.items())
    monkeypatch.setattr(jars, "pinned", lambda _: both)
    return both


def downloads(repository: Repository) -> list[str]:
    return sorted(path.rsplit("/", 1)[1] for path in repository.requests if path.endswith(".jar"))


def fetch(folder: Path) -> list[Path]:
    return jar_paths("spark", folder=folder, attempts=1)


def test_jars_are_fetched_once_and_need_no_network_afterwards(
    repository: Repository, pins: tuple[Jar, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "jars"
    paths = fetch(folder)
    assert paths == [folder / "a-1.0.jar", folder / "b-1.0.jar"]
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert downloads(repository) == ["a-1.0.jar", "b-1.0.jar"]

    monkeypatch.setenv("TIDEMARK_MAVEN_REPOSITORY", "http://127.0.0.1:1")
    assert fetch(folder) == paths
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "a-1.0.jar", "b-1.0.jar"]


def test_only_what_lacks_is_fetched_when_a_download_was_killed_half_way(
    repository: Repository, pins: tuple[Jar, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "jars"
    (folder / ".incoming-of-a-killed-one").mkdir(parents=True)
    (folder / ".incoming-of-a-killed-one" / "part").write_bytes(b"x")
    (folder / "a-1.0.jar").write_bytes(CONTENT["a"])
    (folder / "b-1.0.jar").write_bytes(CONTENT["b"][:100])
    assert fetch(folder)[1].read_bytes() == CONTENT["b"]
    assert downloads(repository) == ["b-1.0.jar"]
    assert not (folder / ".incoming-of-a-killed-one").exists()


def test_each_jar_is_fetched_once_when_two_want_it_at_once(
    repository: Repository, pins: tuple[Jar, ...], tmp_path: Path
) -> None:
    # Threads here hold the lock against each other as processes do: each opens the lock file itself.
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(fetch, [tmp_path / "jars"] * 2)
    assert first == second
    assert [path.read_bytes() for path in first] == list(CONTENT.values())
    assert downloads(repository) == ["a-1.0.jar", "b-1.0.jar"]


def test_a_jar_is_refused_when_it_is_not_the_pinned_one(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forged = Jar(Artifact("org.example", "a", "1.0"), len(CONTENT["a"]), "0" * 64)
    monkeypatch.setattr(jars, "pinned", lambda _: (forged,))
    with pytest.raises(JarsMissing, match=r"org\.example:a:1\.0 is not the pinned file"):
        fetch(tmp_path / "jars")
    assert [p.name for p in (tmp_path / "jars").iterdir()] == [".lock"]


def test_the_folder_and_what_to_do_are_named_when_offline(
    pins: tuple[Jar, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_MAVEN_REPOSITORY", "http://127.0.0.1:1")
    folder = tmp_path / "jars"
    with pytest.raises(JarsMissing) as caught:
        fetch(folder)
    assert f"2 jars (0 MB) are not in {folder}" in caught.value.message
    assert "the Maven repository does not answer" in caught.value.message
    assert "connect to the network once" in str(caught.value.hint)


def test_an_artifact_is_named_when_the_repository_does_not_have_it(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jars, "pinned", lambda _: (jar("a", CONTENT["a"]), jar("absent", b"x")))
    with pytest.raises(JarsMissing, match=r"org\.example:absent:1\.0: not found"):
        fetch(tmp_path / "jars")


def test_a_jar_is_fetched_again_when_the_repository_fails_for_a_moment(
    repository: Repository, pins: tuple[Jar, ...], tmp_path: Path
) -> None:
    repository.refusals = 2
    paths = jar_paths("spark", folder=tmp_path / "jars", attempts=3)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert repository.refusals == 0


@pytest.mark.parametrize("jar_set", ["spark", "broker", "s3"])
def test_no_set_pins_a_jar_twice(jar_set: jars.JarSet) -> None:
    pins = pinned(jar_set)
    assert len({(p.artifact.organisation, p.artifact.name) for p in pins}) == len(pins) > 10
    assert all(len(p.sha256) == 64 for p in pins)


def test_no_pinned_spark_jar_is_among_those_that_pyspark_ships() -> None:
    import pyspark

    shipped = {p.name for p in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    assert len(shipped) > 200
    assert {p.file_name for p in (*pinned("spark"), *pinned("s3"))} & shipped == set()


def test_the_cache_folder_follows_the_environment(tmp_path: Path) -> None:
    assert tidemark_home({"TIDEMARK_HOME": str(tmp_path)}) == tmp_path
    assert tidemark_home({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "tidemark"
    assert tidemark_home({}) == Path("~/.cache/tidemark").expanduser()
