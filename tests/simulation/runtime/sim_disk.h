/// The disk of a simulated machine. It outlives the programs on the machine, and forgets what they did not sync.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/runtime/disk.h"
#include "tests/simulation/runtime/sim_clock.h"
#include "tests/simulation/runtime/sim_file_tree.h"
#include "tests/simulation/runtime/sim_random.h"

namespace kintsugi::simulation {

enum class DiskOp : uint8_t {
  kOpen,
  kRead,
  kWrite,
  kSync,
  kAllocate,
  kTruncate,
  kSize,
  kRename,
  kRemove,
  kMakeDirectory,
  kSyncDirectory,
  kList,
  kSpace,
  kAttributes,
  kLock,
};

struct DiskSpeed {
  uint64_t bytes_per_second = 1'000'000'000;  ///< 0: unlimited
  Duration latency = std::chrono::microseconds(50);
  Duration sync_latency = std::chrono::microseconds(300);
};

struct DiskCounters {
  uint64_t reads = 0, writes = 0, syncs = 0;
  uint64_t bytes_read = 0, bytes_written = 0;
};

class DiskView;

/// Offsets, lengths and addresses are asserted to be multiples of kDiskAlignment, as O_DIRECT demands.
///
/// A path prefix can be a volume of its own (capacity, speed, faults); until then everything is one volume "/" of
/// kDefaultCapacity. A volume's device moves bytes one operation after another; latencies overlap.
class SimDisk {
 public:
  static constexpr uint64_t kDefaultCapacity = uint64_t{1} << 40;

  SimDisk(SimClock& clock, EventHash& events, uint64_t seed);
  ~SimDisk();

  /// The disk that programs use. After `crash` it is dead, and the next call gives another. References stay valid as
  /// long as this disk lives.
  runtime::Disk& view();

  void set_speed(DiskSpeed speed) { speed_ = speed; }
  /// Makes a volume of the prefix, or changes its capacity.
  void set_capacity(const std::string& prefix, uint64_t bytes);
  void fill(const std::string& prefix = "/");  ///< takes all free bytes, until set_capacity or removals
  void set_slow(double factor, const std::string& prefix = "/");  ///< 1 is normal
  /// Every operation fails: reads with kMediumError, as below, others with kIoError.
  void break_disk(const std::string& prefix);
  /// What is asked of the volume does not return until it is no longer hung.
  void set_hung(bool hung, const std::string& prefix = "/");
  /// The file system refuses writes with kReadOnlyDevice, as one does that was remounted after an error.
  void set_read_only(bool read_only, const std::string& prefix = "/");
  /// The block at `offset` cannot be read (kMediumError) until it is written again. kNotFound.
  Status spoil(const std::string& path, uint64_t offset);
  void mend_disk(const std::string& prefix);
  /// The next `count` operations (of kind `only`) below `prefix` fail with `code` and change nothing. A read that gets
  /// kIoError says kMediumError, as those of real disks do.
  void fail_next(size_t count, Code code, const std::string& prefix = "/", std::optional<DiskOp> only = {});
  /// Nothing is broken, hung, slow or read-only any longer, and no failure is still to come. Bad blocks stay.
  void forget_faults();
  /// Flips a stored bit, durably, as bit rot does. kNotFound; kInvalidArgument past the end.
  Status flip_bit(const std::string& path, uint64_t offset, unsigned bit = 0);
  /// Takes a file, or a directory with everything in it, away from under the programs, as `rm -r` does: who has a file
  /// open keeps it. kNotFound.
  Status remove_all(const std::string& path) { return tree_.remove_all(path, clock_.now()); }
  /// Lets two directories change places, durably, as somebody does who mounts disks in each other's places.
  Status swap(const std::string& a, const std::string& b);
  /// Cuts a file off, or grows it, from under the programs. kNotFound.
  Status resize(const std::string& path, uint64_t bytes);

  /// The fate of unsynced changes in later crashes; kRandom by default.
  void set_unsynced(Unsynced unsynced) { unsynced_ = unsynced; }
  /// Kills the disk that programs hold: pending and later operations fail with kCancelled. A pending write may have
  /// happened, in part or not at all. With power_loss, unsynced changes are lost, kept or torn.
  void crash(bool power_loss = true);

  /// These let tests look without time passing. A directory that does not exist is empty.
  std::vector<std::string> list_now(const std::string& path) const;
  Result<std::vector<std::byte>> read_now(const std::string& path) const;
  bool exists(const std::string& path) const { return static_cast<bool>(tree_.find(path)); }
  const DiskCounters& counters() const { return counters_; }

 private:
  friend class DiskView;
  friend class SimFile;
  friend class SimLock;

  /// One life of the programs on the machine.
  struct Life;
  struct Pending;
  struct Request {
    DiskOp op;
    std::string path;  ///< for faults and messages
    std::shared_ptr<Volume> volume;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    InodePtr written;  ///< the file of a write, to which a crash may do things meanwhile
    std::span<const std::byte> data;
  };
  /// Waits as long as the operation takes. An error (a fault, a crash) means that it has no effect.
  asio::awaitable<Status> perform(std::shared_ptr<Life> life, Request request);
  Status injected_fault(const Request& request);
  void begin(const Request& request, std::shared_ptr<Pending> pending);
  TimePoint completion_time(const Request& request);

  std::shared_ptr<Volume> volume_of(const std::string& path) const;
  std::shared_ptr<Volume> make_volume(const std::string& prefix);

  struct Fault {
    std::string prefix;
    size_t count;
    Code code;
    std::optional<DiskOp> only;
  };

  SimClock& clock_;
  EventHash& events_;
  const uint64_t name_;  ///< tells it from the disks of other machines
  SimRandom random_;
  DiskSpeed speed_;
  Unsynced unsynced_ = Unsynced::kRandom;
  std::map<std::string, std::shared_ptr<Volume>> volumes_;  ///< by prefix
  std::vector<Fault> faults_;
  FileTree tree_;
  DiskCounters counters_;
  std::vector<std::unique_ptr<DiskView>> views_;  ///< dead ones stay valid
  uint64_t next_operation_ = 1;
};

}  // namespace kintsugi::simulation
