#include "tests/simulation/swarm/disk_faults.h"

#include <utility>

#include <fmt/format.h>

namespace kintsugi::simulation {
namespace {

/// Within this a server has noticed that a disk of it was taken away.
constexpr Duration kDisksAreLookedAt = std::chrono::seconds(12);

}  // namespace

bool DiskFaults::act(Act act, size_t server, SimRandom& dice) {
  switch (act) {
    case Act::kRotChunk: return rot_chunk(server, dice);
    case Act::kRotAnywhere: return rot_anywhere(server, dice);
    case Act::kReplaceDisk: return replace_disk(server, dice);
    case Act::kSpoilBlock: return spoil_block(server, dice);
    case Act::kBlockingCalls: return block_in_calls(server, dice);
    case Act::kHangOneDisk:
    case Act::kSlowOneDisk:
    case Act::kReadOnlyDisk:
    case Act::kMendOneDisk: return hurt_one_disk(act, server, dice);
    default: return damage(act, server, dice);
  }
}

void DiskFaults::hang(size_t server) {
  cluster_.disk(server).set_slow(1e6);
  hung_.insert(server);
  inspector_.disk_may_be_dropped(server);
}

std::set<size_t> DiskFaults::end(bool failed_disks_stay) {
  one_disk_hung_.clear();
  // A disk that failed is used again by a new process only; a server with another one may live on as it is.
  if (failed_disks_stay && !sick_.empty()) cluster_.run_for(kDisksAreLookedAt);
  for (const size_t server : std::exchange(sick_, {}))
    if (!failed_disks_stay || !has_a_disk(server)) hung_.insert(server);
  return std::exchange(hung_, {});
}

std::string DiskFaults::disk_of(SimRandom& dice) const {
  return fmt::format("/disk-{}", dice.below(disks_));
}

bool DiskFaults::damage(Act act, size_t server, SimRandom& dice) {
  const std::string at = disk_of(dice);
  if (absent_.contains(server) || !inspector_.may_lose(server)) return false;
  SimDisk& disk = cluster_.disk(server);
  switch (act) {
    case Act::kFailReads: disk.fail_next(1 + dice.below(20), Code::kIoError, at, DiskOp::kRead); break;
    case Act::kFailWrites:
      disk.fail_next(1 + dice.below(8), dice.coin() ? Code::kIoError : Code::kNoSpace, at,
                     dice.coin() ? DiskOp::kWrite : DiskOp::kSync);
      break;
    case Act::kBreakDisk: disk.break_disk(at); break;
    default:
      if (!disk.remove_all(at).ok()) return false;
  }
  inspector_.damaged(server);
  sick_.insert(server);
  return true;
}

bool DiskFaults::replace_disk(size_t server, SimRandom& dice) {
  const std::string at = disk_of(dice);
  if (absent_.contains(server) || cluster_.running(server) || !inspector_.may_lose(server)) return false;
  if (!cluster_.disk(server).remove_all(at).ok()) return false;
  inspector_.emptied(server);
  return true;
}

std::optional<ChunkId> DiskFaults::chunk_to_hurt(size_t server, SimRandom& dice) const {
  std::vector<ChunkId> chunks;
  for (const ChunkId chunk : inspector_.chunks_on(server))
    if (inspector_.may_lose(server, chunk)) chunks.push_back(chunk);
  if (chunks.empty()) return std::nullopt;
  return chunks[dice.below(chunks.size())];
}

bool DiskFaults::rot_chunk(size_t server, SimRandom& dice) {
  const auto chunk = chunk_to_hurt(server, dice);
  // Only chunks in files of their own are found by name.
  if (!chunk || !cluster_.rot(server, *chunk)) return false;
  inspector_.damaged(server, *chunk);
  return true;
}

bool DiskFaults::spoil_block(size_t server, SimRandom& dice) {
  const auto chunk = chunk_to_hurt(server, dice);
  if (!chunk || !cluster_.spoil(server, *chunk)) return false;
  inspector_.damaged(server, *chunk);
  return true;
}

bool DiskFaults::hurt_one_disk(Act act, size_t server, SimRandom& dice) {
  const std::string at = disk_of(dice);
  SimDisk& disk = cluster_.disk(server);
  switch (act) {
    case Act::kHangOneDisk:
      disk.set_hung(true, at);
      one_disk_hung_.insert(server);
      inspector_.disk_may_be_dropped(server);
      return true;
    case Act::kSlowOneDisk: disk.set_slow(2 + static_cast<double>(dice.below(3000)), at); return true;
    case Act::kReadOnlyDisk:
      disk.set_read_only(true, at);
      hung_.insert(server);  // only a new process writes to it again
      inspector_.disk_may_be_dropped(server);
      return true;
    default:
      disk.set_hung(false, at);
      disk.set_slow(1, at);
      disk.set_read_only(false, at);
      return true;
  }
}

bool DiskFaults::block_in_calls(size_t server, SimRandom& dice) {
  if (!cluster_.running(server)) return false;
  constexpr runtime::FaultPoint kCalls[] = {runtime::FaultPoint::kDiskRead, runtime::FaultPoint::kDiskWrite,
                                            runtime::FaultPoint::kDiskSync};
  const runtime::Fault fault{.point = kCalls[dice.below(std::size(kCalls))],
                             .action = runtime::FaultAction::kCpuLoop,
                             .times = 1 + dice.below(3),
                             .delay = std::chrono::milliseconds(100 + dice.below(1400))};
  return cluster_.node(server).faults().set(fault).has_value();
}

bool DiskFaults::rot_anywhere(size_t server, SimRandom& dice) {
  if (absent_.contains(server) || !inspector_.may_lose(server)) return false;
  SimDisk& disk = cluster_.disk(server);
  const std::string segments = disk_of(dice) + "/segments";
  const auto names = disk.list_now(segments);
  if (names.empty()) return false;
  const std::string path = segments + "/" + names[dice.below(names.size())];
  const auto bytes = disk.read_now(path);
  if (!bytes || bytes->empty()) return false;
  if (!disk.flip_bit(path, dice.below(bytes->size()), static_cast<unsigned>(dice.below(8))).ok())
    return false;
  inspector_.damaged(server);
  sick_.insert(server);
  return true;
}

bool DiskFaults::has_a_disk(size_t server) const {
  const chunkserver::ChunkStore* store = cluster_.running(server) ? cluster_.store(server) : nullptr;
  return store != nullptr && store->known_space().failed_disks < disks_;
}

}  // namespace kintsugi::simulation
