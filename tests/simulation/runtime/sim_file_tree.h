/// The directories of a simulated disk: as programs see them, and which of their changes would survive a power cut.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "tests/simulation/runtime/sim_file.h"

namespace kintsugi::simulation {

/// A part of the disk with its own space, speed and faults, as a mount point would be.
struct Volume {
  std::string prefix;
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;
  double slowness = 1.0;
  bool broken = false;
  bool hung = false;       ///< what is asked of it does not return
  bool read_only = false;  ///< what would change something is refused
  /// Finish the operations that were asked of it while it was hung.
  std::vector<std::function<void()>> stuck;
  TimePoint free_at;  ///< when the device has moved all bytes asked of it so far

  uint64_t free_bytes() const { return capacity_bytes > used_bytes ? capacity_bytes - used_bytes : 0; }
};

class SimLock;

struct Inode {
  Inode(uint64_t number, bool directory) : number(number), is_directory(directory) {}
  ~Inode() {
    if (volume) volume->used_bytes -= charged_bytes;
  }
  Inode(const Inode&) = delete;
  Inode& operator=(const Inode&) = delete;

  const uint64_t number;  ///< no other inode of the disk ever has it
  const bool is_directory;
  std::map<std::string, std::shared_ptr<Inode>> entries;  ///< when it is a directory
  std::map<std::string, std::shared_ptr<Inode>> durable_entries;
  SimFileContent content;  ///< when it is a file
  std::shared_ptr<Volume> volume;
  uint64_t charged_bytes = 0;
  std::set<uint64_t> bad_blocks;  ///< multiples of kDiskAlignment that cannot be read until they are written
  const SimLock* lock = nullptr;  ///< the last one, as long as it lives

  /// Accounts for a size of `bytes`. kNoSpace: nothing changed.
  Status charge(uint64_t bytes);
  void move_to(std::shared_ptr<Volume> other);
};

using InodePtr = std::shared_ptr<Inode>;

/// Changes of directories become durable by sync_directory, or by themselves after kCommitAfter, as a journal
/// would do. Until then a power cut keeps any prefix or any subset of them; a rename is kept whole or not at
/// all, unless only one of its two directories was synced.
class FileTree {
 public:
  static constexpr Duration kCommitAfter = std::chrono::seconds(5);

  FileTree() : root_(new_inode(true)) {}

  Result<InodePtr> find(const std::string& path) const;
  /// kAlreadyExists, and errors of find().
  Result<InodePtr> make_file(const std::string& path, std::shared_ptr<Volume> volume, TimePoint now);
  Status rename(const std::string& from, const std::string& to, TimePoint now);
  Status remove(const std::string& path, TimePoint now);
  /// Removes a file, or a directory with everything in it.
  Status remove_all(const std::string& path, TimePoint now);
  Status make_directory(const std::string& path, TimePoint now);
  Status sync_directory(const std::string& path);
  Result<std::vector<std::string>> list(const std::string& path) const;

  void commit_old(TimePoint now);
  void lose_power(Unsynced unsynced, SimRandom& random);
  /// Every file at or below `path`.
  std::vector<InodePtr> files_below(const std::string& path) const;

 private:
  /// One half of a change; a rename has both.
  struct Half {
    InodePtr directory;  ///< null when there is no such half, or it is durable already
    std::string name;
    InodePtr inode;
  };
  struct Change {
    TimePoint at;
    Half added;
    Half removed;
  };
  struct Place {
    InodePtr directory;
    std::string name;
  };
  Result<Place> place(const std::string& path) const;
  InodePtr new_inode(bool directory) { return std::make_shared<Inode>(next_inode_++, directory); }
  Status add(const std::string& path, InodePtr inode, TimePoint now);
  static void apply_added(Half& half);
  static void apply_removed(Half& half);
  static void apply(Change& change);
  static void restore(const InodePtr& inode, Unsynced unsynced, SimRandom& random,
                      std::set<const Inode*>& seen);

  uint64_t next_inode_ = 1;
  InodePtr root_;
  std::deque<Change> changes_;  ///< not yet durable, oldest first
};

/// True when `path` is `prefix` or lies below it.
bool lies_below(const std::string& path, const std::string& prefix);

}  // namespace kintsugi::simulation
