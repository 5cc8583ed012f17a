"""A repository's git objects, as much of them as the REST API shows."""

import hashlib
import json
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Commit:
    tree: str
    parents: tuple[str, ...]
    message: str


@dataclass
class Objects:
    """Blobs, flat trees of whole paths, commits and references. Not safe for threads by itself."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    trees: dict[str, dict[str, str]] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    """`refs/heads/main` → commit."""

    def add_blob(self, content: bytes) -> str:
        sha = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        self.blobs[sha] = content
        return sha

    def add_tree(self, entries: dict[str, str]) -> str:
        sha = _digest("tree", sorted(entries.items()))
        self.trees[sha] = entries
        return sha

    def add_commit(self, commit: Commit) -> str:
        sha = _digest("commit", [commit.tree, commit.parents, commit.message])
        self.commits[sha] = commit
        return sha

    def write(self, ref: str, path: str, content: bytes, message: str) -> str:
        """One more commit on a branch, that sets one file."""
        head = self.refs.get(ref)
        entries = self.files(head) if head else {}
        tree = self.add_tree({**entries, path: self.add_blob(content)})
        self.refs[ref] = self.add_commit(Commit(tree, (head,) if head else (), message))
        return self.refs[ref]

    def files(self, commit: str) -> dict[str, str]:
        """Path → blob."""
        return self.trees[self.commits[commit].tree]

    def descends(self, commit: str, from_commit: str) -> bool:
        """Whether one is the other or comes after it."""
        todo = [commit]
        while todo:
            sha = todo.pop()
            if sha == from_commit:
                return True
            todo += self.commits[sha].parents
        return False


def _digest(kind: str, content: object) -> str:
    return hashlib.sha1(f"{kind} {json.dumps(content)}".encode(), usedforsecurity=False).hexdigest()
