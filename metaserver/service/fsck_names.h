/// The part of fsck that looks for files of snapshots that have lost their names.
///
/// A snapshot keeps the former inode and the former entry of a file that is removed after it was made. Versions of
/// this program in which a saved name hid each shorter name that it begins with kept the inode alone
/// (docs/reliability.md): the snapshot holds the file's bytes, and shows no file. So each inode that a snapshot keeps
/// is looked for among the names of its directory in the snapshot.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "metaserver/namespace/snapshots.h"

namespace kintsugi::metaserver {

/// Names read for one page, and inodes that they are compared with.
inline constexpr size_t kFsckNamesOfAPage = 10'000;

class FsckNames {
 public:
  /// References outlive it.
  FsckNames(const Snapshots& snapshots, const Reader& reader, proto::FsckResponse& response)
      : snapshots_(snapshots), reader_(reader), response_(response) {}

  /// Checks what follows `after`, which an earlier page returned, in the snapshots of directories at or below one;
  /// from the beginning if it is empty. Returns where the next page continues; nothing when all is checked.
  std::string check(InodeId root, std::string_view after);

 private:
  /// Where a page ended: inside of a directory with inodes that are looked for together.
  struct Place {
    uint64_t snapshot = 0;
    uint64_t inodes_after = 0;  ///< inodes up to this id are checked
    uint64_t directory = 0;     ///< inodes in directories with smaller ids are checked, too
    uint64_t wanted = 0;        ///< inodes that the directory must name, counted when it was begun
    uint64_t found = 0;         ///< how many of them the names read so far have confirmed
    std::string name;           ///< the last name that was read

    std::string serialise() const;
    static Place parse(std::string_view bytes);
  };
  struct Wanted {
    std::map<uint64_t, std::set<uint64_t>> in;  ///< inodes by the directory that must name them
    uint64_t last = 0;                          ///< highest inode that was examined; 0: there are no more
  };

  bool check_snapshot(const proto::StoredSnapshot& snapshot, Place& place);
  /// Inodes of a batch, each of which one name in a directory of the snapshot must stand for.
  Wanted wanted(const proto::StoredSnapshot& snapshot, const Place& place);
  bool check_directory(const Reader& then, const std::set<uint64_t>& wanted, Place& place);
  void tell(const proto::StoredSnapshot& snapshot, const Reader& then, InodeId directory, uint64_t lost);

  const Snapshots& snapshots_;
  const Reader& reader_;
  proto::FsckResponse& response_;
  size_t read_ = 0;
};

}  // namespace kintsugi::metaserver
