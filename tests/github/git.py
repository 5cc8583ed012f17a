"""The git objects of the fake repository, with the fields that the REST API shows."""

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
    """Blobs, trees, commits and references. A tree maps whole paths to blobs. Callers must hold a lock."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    trees: dict[str, dict[str, str]] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    """Name of a reference, such as `refs/heads/main`, to its commit."""

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
        """Add a commit to a branch that sets the content of one file. Return the commit's hash."""
        head = self.refs.get(ref)
        entries = self.files(head) if head else {}
        tree = self.add_tree({**entries, path: self.add_blob(content)})
        self.refs[ref] = self.add_commit(Commit(tree, (head,) if head else (), message))
        return self.refs[ref]

    def files(self, commit: str) -> dict[str, str]:
        """Return the hash of each blob of a commit by path."""
        return self.trees[self.commits[commit].tree]

    def descends(self, commit: str, from_commit: str) -> bool:
        """Return True if `commit` is `from_commit` or one of its descendants."""
        todo = [commit]
        while todo:
            sha = todo.pop()
            if sha == from_commit:
                return True
            todo += self.commits[sha].parents
        return False


def _digest(kind: str, content: object) -> str:
    return hashlib.sha1(f"{kind} {json.dumps(content)}".encode(), usedforsecurity=False).hexdigest()
