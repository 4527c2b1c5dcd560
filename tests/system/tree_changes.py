# SPDX-License-Identifier: Apache-2.0
"""Random operations of tree_actor that succeed on a tree of the model."""

from daemon import MIB

FILE_BYTES, SPARSE_BYTES = 20000, 5 * MIB


class Changes:
    """Draws operations; to apply them is up to the caller."""

    lacking = ()  # what the file system cannot do at all

    def __init__(self, dice, tree):
        self.dice, self.tree = dice, tree

    def new(self):
        folder = self.dice.choice([path for path in self.tree.directories() if path.count("/") < 4])
        name = f"{folder}/{self.dice.choice('abcdefgh')}{self.dice.randrange(10)}"
        return None if name in self.tree.names else name

    def pick(self, kinds, free=True):
        found = self.tree.free(kinds) if free else self.tree.paths(kinds)
        return self.dice.choice(found) if found else None

    def text(self):
        return f"{self.dice.randrange(1 << 40):x}."

    def mode(self):
        return f"{self.dice.randrange(0o10000) & 0o1777 | 0o400:o}"

    def draw(self):
        """One operation as a text, or None when the draw made no sense."""
        dice = self.dice
        kind = dice.choice(["file"] * 3 + ["over"] * 3 + [
            "sparse", "truncate", "punch", "map", "mkdir", "mkdir", "fifo", "symlink", "link", "link",
            "rename", "rename_dir", "replace", "exchange", "remove", "chmod", "chown", "xattr",
            "delxattr"])
        return None if kind in self.lacking else getattr(self, kind)()

    def file(self):
        path = self.new()
        return path and f"write {path} 0 {self.dice.randrange(1, 500)} {self.text()}"

    def over(self):
        path = self.pick("f")
        if path:
            size = min(len(self.tree.at(path).data), FILE_BYTES)
            return f"write {path} {self.dice.randint(0, size)} {self.dice.randrange(1, 50)} {self.text()}"

    def sparse(self):
        path = self.pick("f")
        return path and f"write {path} {self.dice.randrange(4 * MIB, SPARSE_BYTES)} 1 {self.text()}"

    def truncate(self):
        path = self.pick("f")
        return path and f"truncate {path} {self.dice.randrange(FILE_BYTES)}"

    def punch(self):
        path = self.pick("f")
        return path and f"punch {path} {4096 * self.dice.randrange(3)} {4096 * self.dice.randint(1, 3)}"

    def map(self):
        path, text = self.pick("f"), self.text()
        room = len(self.tree.at(path).data) - len(text) if path else 0
        return f"map {path} {self.dice.randrange(room)} {text}" if room > 0 else None

    def mkdir(self):
        path = self.new()
        return path and f"mkdir {path} {self.mode()}"

    def fifo(self):
        path = self.new()
        return path and f"fifo {path} {self.mode()}"

    def symlink(self):
        path = self.new()
        return path and f"symlink {self.dice.choice(['nowhere', '../..', '/etc/passwd', 'a1'])} {path}"

    def link(self):
        old, new = self.pick("f"), self.new()
        return f"link {old} {new}" if old and new else None

    def rename(self):
        old, new = self.pick("flp"), self.new()
        return f"rename {old} {new}" if old and new else None

    def rename_dir(self):
        old, new = self.pick("d"), self.new()
        return f"rename {old} {new}" if old and new and not f"{new}/".startswith(f"{old}/") else None

    def replace(self):
        old, new = self.pick("f"), self.pick("f", free=False)
        tree = self.tree
        return f"rename {old} {new}" if old and new and tree.names[old] != tree.names[new] else None

    def exchange(self):
        left, right = self.pick("fl"), self.pick("fl")
        return f"exchange {left} {right}" if left and left != right else None

    def remove(self):
        path = self.pick("fldp", free=False)
        return path and f"remove {path}"

    def chmod(self):
        path = self.pick("fdp")
        return path and f"chmod {path} {self.mode()}"

    def chown(self):
        path = self.pick("fdlp")
        return path and f"chown {path} {self.dice.choice([0, 33, 1000])} {self.dice.choice([0, 1000])}"

    def xattr(self):
        path = self.pick("fd")
        return path and f"setxattr {path} user.{self.dice.choice('xyz')} {self.text()}"

    def delxattr(self):
        found = [path for path in self.tree.free("fd") if self.tree.at(path).xattrs]
        if found:
            path = self.dice.choice(found)
            return f"delxattr {path} {self.dice.choice(sorted(self.tree.at(path).xattrs))}"
