"""Git repositories made by the git command, for tests."""

from __future__ import annotations

import hashlib
import os
import ssl
import subprocess
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ADA = "Ada Lovelace <ada@example.com>"
BEN = "Ben Kay <ben@example.com>"


@dataclass
class Remote:
    """A repository with a branch `main`, written without a work tree: also what no git would commit."""

    folder: Path
    files: dict[str, bytes] = field(default_factory=dict)
    sha256: bool = False

    @classmethod
    def at(cls, folder: Path, *, sha256: bool = False) -> Remote:
        folder.mkdir(parents=True)
        made = cls(folder, sha256=sha256)
        made.git("init", "--quiet", "--bare", "--initial-branch=main", f"--object-format={'sha256' if sha256 else 'sha1'}", ".")
        return made

    def url(self, tail: str = "@main") -> str:
        return f"git+file://{self.folder}{tail}"

    def git(self, *arguments: str, given: bytes = b"", **variables: str) -> str:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        ran = subprocess.run(
            ["git", *arguments], cwd=self.folder, input=given, capture_output=True, check=False, env=kept | config | variables
        )
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout.decode().strip()

    def commit(self, edits: Mapping[str, str | bytes | None], author: str = ADA, branch: str = "main", parent: str = "") -> str:
        """Writes files, removes those that are None, and moves the branch to the new commit. parent: instead of its tip."""
        for name, content in edits.items():
            if content is None:
                del self.files[name]
            else:
                self.files[name] = content.encode() if isinstance(content, str) else content
        return self.commit_tree(self.tree(self.files), author, branch, parent)

    def tree(self, files: Mapping[str, bytes]) -> str:
        """The id of a tree of regular files."""
        index = self.folder / "test-index"
        index.unlink(missing_ok=True)
        lines = "".join(f"100644 {self.blob(content)}\t{name}\n" for name, content in files.items())
        self.git("update-index", "--add", "--index-info", given=lines.encode(), GIT_INDEX_FILE=str(index))
        return self.git("write-tree", GIT_INDEX_FILE=str(index))

    def blob(self, content: bytes) -> str:
        return self._put("blob", content)

    def raw_tree(self, *entries: tuple[str, bytes, str]) -> str:
        """A tree of (mode, name, id), as malformed as they are."""
        data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        return self._put("tree", data)

    def _put(self, kind: str, content: bytes) -> str:
        """Writes an object as git would, but for looking at what it holds."""
        data = f"{kind} {len(content)}\0".encode() + content
        oid = (hashlib.sha256 if self.sha256 else hashlib.sha1)(data).hexdigest()
        path = self.folder / "objects" / oid[:2] / oid[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(zlib.compress(data, 1))
        return oid

    def commit_tree(self, tree: str, author: str = ADA, branch: str = "main", parent: str = "") -> str:
        name, _, address = author.partition(" <")
        who: dict[str, Any] = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address.rstrip(">")}
        who |= {"GIT_COMMITTER_NAME": "Merge Bot", "GIT_COMMITTER_EMAIL": "bot@example.com"}
        above = parent or self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        parents = ["-p", above] if above and above != "none" else []
        commit = self.git("commit-tree", tree, *parents, "-m", "edit", **who)
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit


@dataclass
class Served:
    """Repositories behind `git http-backend`. authorizations: those that were sent; moved_to: answers by a redirect instead.

    answers: that status instead; wants: the authorization without which it answers 401.
    """

    url: str = ""
    answers: int = 0
    wants: str = ""
    authorizations: set[str] = field(default_factory=set)
    moved_to: str = ""


@contextmanager
def served_over_http(folder: Path, tls: ssl.SSLContext | None = None) -> Iterator[Served]:
    """Serves the repositories of a folder on loopback. tls: by https."""
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.authorizations.add(self.headers.get("Authorization", ""))
            if served.moved_to:
                self.send_response(302)
                self.send_header("Location", f"{served.moved_to}{self.path}")
                self.end_headers()
                return
            if served.answers or (served.wants and self.headers.get("Authorization") != served.wants):
                self.send_response(served.answers or 401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            given = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            variables = {
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(given)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            ran = subprocess.run(
                ["git", "http-backend"], input=given, capture_output=True, check=True, env=os.environ | variables
            )
            head, _, body = ran.stdout.partition(b"\r\n\r\n")
            fields = [line.split(": ", 1) for line in head.decode().splitlines()]
            self.send_response(next((int(value[:3]) for name, value in fields if name == "Status"), 200))
            for name, value in fields:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    served.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
