# SPDX-License-Identifier: Apache-2.0
"""A directory tree in Python: what operations of tree_actor make of it, and how it looks then.

Two names of one file that were there when the tree's layer was frozen (a turn, a rollback, a fork)
part when one of them is changed: that is how overlayfs does it. Such names are only removed or replaced
here; on other stores (`Tree.parts_links` is false) they are changed as any."""

import copy
import itertools
import zlib

from daemon import MIB

_numbers = itertools.count()


def _above(path):
    """The directories it is in, but the top."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def _is_inside(name, paths):
    return any(name == path or name.startswith(f"{path}/") for path in paths)


class Inode:
    """One node; `data` is replaced, never changed, so that copies of a tree share it."""

    def __init__(self, kind, mode, data=b"", target=""):
        self.kind, self.mode, self.data, self.target = kind, mode, data, target
        self.uid = self.gid = 0
        self.xattrs = {}
        self.touched = set()  # mebibytes that were written to
        self.is_frozen = False

    def copy(self):
        other = copy.copy(self)
        other.xattrs, other.touched = dict(self.xattrs), set(self.touched)
        return other

    def is_like(self, other):
        """Nothing of it would have to be restored."""
        mine, others = ((node.kind, node.mode, node.uid, node.gid, node.xattrs, node.target, node.data)
                        for node in (self, other))
        return mine == others


class Tree:
    parts_links = True
    tells_holes = True  # the file system, by SEEK_HOLE

    def __init__(self):
        self.names = {".": 0}
        self.inodes = {0: Inode("d", 0o755)}

    def copy(self):
        other = Tree()
        other.names = dict(self.names)
        other.inodes = {number: self.inodes[number].copy() for number in set(self.names.values())}
        return other

    def freeze(self):
        for node in self.inodes.values():
            node.is_frozen = self.parts_links

    def at(self, path):
        return self.inodes[self.names[path]]

    def paths(self, kinds):
        return sorted(path for path in self.names if self.at(path).kind in kinds and path != ".")

    def directories(self):
        return [".", *self.paths("d")]

    def is_tied(self, path):
        """One of several names that must not be changed."""
        number = self.names[path]
        return self.inodes[number].is_frozen and list(self.names.values()).count(number) > 1

    def free(self, kinds):
        return [path for path in self.paths(kinds) if not self.is_tied(path)]

    # Operations, by the words of tree_actor.

    def apply(self, operation):
        verb, *words = operation.split(" ")
        getattr(self, f"_{verb}")(*words)

    def _add(self, path, node):
        number = next(_numbers) + 1
        self.names[path], self.inodes[number] = number, node

    def _put(self, path, offset, data):
        if path not in self.names:
            self._add(path, Inode("f", 0o644))
        node = self.at(path)
        old = node.data.ljust(offset, b"\0")
        node.data = old[:offset] + data + old[offset + len(data):]
        node.touched |= set(range(offset // MIB, (offset + len(data) - 1) // MIB + 1))

    def _write(self, path, offset, count, text):
        self._put(path, int(offset), text.encode() * int(count))

    def _map(self, path, offset, text):
        self._put(path, int(offset), text.encode())

    def _punch(self, path, offset, size):
        node, offset, size = self.at(path), int(offset), int(size)
        end = min(offset + size, len(node.data))
        if end > offset:
            node.data = node.data[:offset] + bytes(end - offset) + node.data[end:]

    def _truncate(self, path, size):
        node = self.at(path)
        node.data = node.data[:int(size)].ljust(int(size), b"\0")

    def _mkdir(self, path, mode):
        self._add(path, Inode("d", int(mode, 8)))

    def _fifo(self, path, mode):
        self._add(path, Inode("p", int(mode, 8)))

    def _symlink(self, target, path):
        self._add(path, Inode("l", 0o777, target=target))

    def _link(self, old, new):
        self.names[new] = self.names[old]

    def _remove(self, path):
        for name in [name for name in self.names if name == path or name.startswith(f"{path}/")]:
            del self.names[name]

    def _rename(self, old, new):
        if new in self.names:
            del self.names[new]
        for name in sorted(self.names):
            if name == old or name.startswith(f"{old}/"):
                self.names[new + name[len(old):]] = self.names.pop(name)

    def _exchange(self, left, right):
        self.names[left], self.names[right] = self.names[right], self.names[left]

    def _chmod(self, path, mode):
        self.at(path).mode = int(mode, 8)

    def _chown(self, path, uid, gid):
        node = self.at(path)
        node.uid, node.gid = int(uid), int(gid)

    def _setxattr(self, path, name, value):
        self.at(path).xattrs[name] = value

    def _delxattr(self, path, name):
        del self.at(path).xattrs[name]

    # Restoring single paths.

    def is_in_the_way(self, past, paths):
        """Something else stands where a directory above one of the paths was, and is to stay."""
        return any(path in past.names and above in self.names and self.at(above).kind != "d"
                   and not _is_inside(above, paths)
                   for path in paths for above in _above(path))

    def restore(self, past, paths, keep_extra):
        wanted = {name for name in past.names if _is_inside(name, paths)}
        wanted |= {above for name in wanted for above in _above(name) if above not in self.names}
        for name in [name for name in self.names if _is_inside(name, paths) and name not in wanted]:
            # What was in a directory that becomes something else cannot be kept.
            if not keep_extra or any(above in wanted and past.at(above).kind != "d"
                                     for above in _above(name)):
                del self.names[name]
        changed = {name for name in wanted
                   if name not in self.names or not self.at(name).is_like(past.at(name))}
        # All names of a file come back together.
        files = {past.names[name] for name in changed if past.at(name).kind == "f"}
        changed |= {name for name in wanted if past.names[name] in files}
        made = {}
        for name in sorted(changed):
            node, number = past.at(name).copy(), past.names[name]
            node.is_frozen = False
            if node.kind == "d" and name in self.names and self.at(name).kind == "d":
                self.inodes[self.names[name]] = node
            elif number in made:
                self.names[name] = made[number]
            else:
                self._add(name, node)
                made[number] = self.names[name]

    # Looks.

    def compare(self, text):
        """Differences from a dump, in words."""
        found = {}
        for line in text.splitlines():
            path, *fields = line.split("\t")
            found[path] = fields
        told = [f"{path}: missing" for path in sorted(set(self.names) - set(found))]
        told += [f"{path}: too much" for path in sorted(set(found) - set(self.names))]
        first = {}
        for path in sorted(set(self.names) & set(found), key=lambda path: path.split("/")):
            number = self.names[path]
            link = first.get(number, "-")
            first.setdefault(number, path)
            told += [f"{path}: {what}" for what in self._differs(self.at(path), found[path], link)]
        return told

    def _differs(self, node, fields, link):
        kind, mode, uid, gid, size, _, linked, xattrs, *rest = fields
        wanted = {"kind": node.kind, "mode": f"{node.mode:o}", "uid": str(node.uid),
                  "gid": str(node.gid),
                  "xattrs": "".join(f"{name}={value.encode().hex()}," for name, value
                                    in sorted(node.xattrs.items()))}
        seen = {"kind": kind, "mode": mode, "uid": uid, "gid": gid, "xattrs": xattrs}
        if node.kind == "f":
            wanted |= {"size": str(len(node.data)), "crc": f"{zlib.crc32(node.data):08x}",
                       "link": link}
            seen |= {"size": size, "crc": rest[0], "link": linked}
        elif node.kind == "l":
            wanted["target"], seen["target"] = node.target, rest[0]
        for name, value in wanted.items():
            if seen[name] != value:
                yield f"{name} is {seen[name]}, should be {value}"
        if node.kind == "f":
            extents = [piece.split("-") for piece in rest[1].split(",") if piece]
            data = sum(int(end) - int(start) for start, end in extents)
            # The kernel copies holes up by the mebibyte.
            if self.tells_holes and data > (len(node.touched) + 2) * MIB:
                yield f"{data} bytes of data, {len(node.touched)} MiB were written: the holes are gone"
