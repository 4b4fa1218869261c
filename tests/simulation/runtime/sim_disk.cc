#include "tests/simulation/runtime/sim_disk.h"

#include <algorithm>

#include "common/base/assert.h"
#include "tests/simulation/runtime/sim_disk_view.h"

namespace kintsugi::simulation {
namespace {

/// A dead disk still takes a moment to refuse, so that no retry loop stops the clock.
constexpr Duration kDeadDelay = std::chrono::milliseconds(1);

bool changes_something(DiskOp op) {
  switch (op) {
    case DiskOp::kWrite:
    case DiskOp::kAllocate:
    case DiskOp::kTruncate:
    case DiskOp::kRename:
    case DiskOp::kRemove: return true;
    default: return false;
  }
}

Duration times(Duration duration, double factor) {
  return Duration(static_cast<int64_t>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

SimDisk::SimDisk(SimClock& clock, EventHash& events, uint64_t seed)
    : clock_(clock), events_(events), name_(mix_bits(seed)), random_(seed) {
  make_volume("/");
}
SimDisk::~SimDisk() {
  // A write that hangs keeps its file, the file its volume, and the volume the write.
  for (const auto& [prefix, volume] : volumes_)
    volume->stuck.clear();
}

runtime::Disk& SimDisk::view() {
  if (views_.empty() || !views_.back()->life_->alive) views_.push_back(std::make_unique<DiskView>(*this));
  return *views_.back();
}

std::shared_ptr<Volume> SimDisk::volume_of(const std::string& path) const {
  const std::shared_ptr<Volume>* best = nullptr;
  for (const auto& [prefix, volume] : volumes_) {
    if (lies_below(path, prefix) && (best == nullptr || prefix.size() > (*best)->prefix.size()))
      best = &volume;
  }
  return *best;
}

std::shared_ptr<Volume> SimDisk::make_volume(const std::string& prefix) {
  auto& volume = volumes_[prefix];
  if (!volume) {
    volume = std::make_shared<Volume>();
    volume->prefix = prefix;
    volume->capacity_bytes = kDefaultCapacity;
    for (const auto& file : tree_.files_below(prefix))
      file->move_to(volume);
  }
  return volume;
}

void SimDisk::set_capacity(const std::string& prefix, uint64_t bytes) {
  make_volume(prefix)->capacity_bytes = bytes;
}

void SimDisk::fill(const std::string& prefix) {
  const auto volume = make_volume(prefix);
  volume->capacity_bytes = volume->used_bytes;
}

void SimDisk::set_slow(double factor, const std::string& prefix) {
  make_volume(prefix)->slowness = factor;
}
void SimDisk::break_disk(const std::string& prefix) {
  make_volume(prefix)->broken = true;
}
void SimDisk::mend_disk(const std::string& prefix) {
  make_volume(prefix)->broken = false;
}

void SimDisk::set_hung(bool hung, const std::string& prefix) {
  const auto volume = make_volume(prefix);
  volume->hung = hung;
  if (hung) return;
  for (auto& finish : std::exchange(volume->stuck, {}))
    clock_.call_at(clock_.now() + speed_.latency, std::move(finish));
}
void SimDisk::set_read_only(bool read_only, const std::string& prefix) {
  make_volume(prefix)->read_only = read_only;
}

Status SimDisk::spoil(const std::string& path, uint64_t offset) {
  KINTSUGI_ASSIGN(InodePtr inode, tree_.find(path));
  inode->bad_blocks.insert(offset - offset % runtime::kDiskAlignment);
  return {};
}

void SimDisk::fail_next(size_t count, Code code, const std::string& prefix, std::optional<DiskOp> only) {
  KINTSUGI_ASSERT(code != Code::kOk);
  if (count > 0) faults_.push_back({prefix, count, code, only});
}

void SimDisk::forget_faults() {
  faults_.clear();
  for (const auto& [prefix, volume] : volumes_) {
    volume->broken = false;
    volume->read_only = false;
    volume->slowness = 1;
    if (volume->hung) set_hung(false, prefix);
  }
}

Status SimDisk::flip_bit(const std::string& path, uint64_t offset, unsigned bit) {
  KINTSUGI_ASSIGN(InodePtr inode, tree_.find(path));
  if (inode->is_directory || offset >= inode->content.current().size()) {
    return {Code::kInvalidArgument, path + ": no such byte"};
  }
  inode->content.flip_bit(offset, bit);
  return {};
}

Status SimDisk::swap(const std::string& a, const std::string& b) {
  const std::string aside = a + ".aside";
  KINTSUGI_TRY(tree_.rename(a, aside, clock_.now()));
  KINTSUGI_TRY(tree_.rename(b, a, clock_.now()));
  KINTSUGI_TRY(tree_.rename(aside, b, clock_.now()));
  return tree_.sync_directory("/");
}

Status SimDisk::resize(const std::string& path, uint64_t bytes) {
  KINTSUGI_ASSIGN(InodePtr inode, tree_.find(path));
  if (inode->is_directory) return {Code::kIsDirectory, path + ": is a directory"};
  KINTSUGI_TRY(inode->charge(bytes));
  inode->content.resize(bytes);
  return {};
}

Status SimDisk::injected_fault(const Request& request) {
  const auto as_told = [&](Code code) {
    return code == Code::kIoError && request.op == DiskOp::kRead ? Code::kMediumError : code;
  };
  if (request.volume->broken) return {as_told(Code::kIoError), request.path + ": input/output error"};
  if (request.volume->read_only && changes_something(request.op))
    return {Code::kReadOnlyDevice, request.path + ": read-only file system"};
  for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
    if (!lies_below(request.path, fault->prefix) || (fault->only && *fault->only != request.op)) continue;
    const Code code = fault->code;
    if (--fault->count == 0) faults_.erase(fault);
    return {as_told(code), request.path + ": injected fault"};
  }
  return {};
}

TimePoint SimDisk::completion_time(const Request& request) {
  Volume& volume = *request.volume;
  volume.free_at = std::max(volume.free_at, clock_.now());
  if (speed_.bytes_per_second > 0) {
    const auto nanoseconds =
        static_cast<unsigned __int128>(request.bytes) * 1'000'000'000u / speed_.bytes_per_second;
    volume.free_at += times(Duration(static_cast<int64_t>(nanoseconds)), volume.slowness);
  }
  const bool sync = request.op == DiskOp::kSync || request.op == DiskOp::kSyncDirectory;
  return volume.free_at + times(sync ? speed_.sync_latency : speed_.latency, volume.slowness);
}

void SimDisk::begin(const Request& request, std::shared_ptr<Pending> pending) {
  auto finish = [pending = std::move(pending)] {
    if (!pending->result) pending->result = Status{};
    pending->done.open();
  };
  if (request.volume->hung) {
    request.volume->stuck.push_back(std::move(finish));
  } else {
    clock_.call_at(completion_time(request), std::move(finish));
  }
}

asio::awaitable<Status> SimDisk::perform(std::shared_ptr<Life> life, Request request) {
  auto pending = std::make_shared<Pending>();
  const uint64_t number = next_operation_++;
  if (life->alive) {
    pending->written = request.written;
    pending->offset = request.offset;
    pending->data = request.data;
    life->pending[number] = pending;
    begin(request, pending);
  } else {
    clock_.call_at(clock_.now() + kDeadDelay, [pending] {
      pending->result = Status{Code::kCancelled, "this machine crashed"};
      pending->done.open();
    });
  }
  while (!pending->result)
    co_await pending->done.wait();
  if (life->alive) {
    life->pending.erase(number);
    tree_.commit_old(clock_.now());
    pending->result = injected_fault(request);
    counters_.reads += request.op == DiskOp::kRead;
    counters_.writes += request.op == DiskOp::kWrite;
    counters_.syncs += request.op == DiskOp::kSync || request.op == DiskOp::kSyncDirectory;
  }
  events_.event(clock_.now().time_since_epoch().count(), static_cast<uint8_t>(request.op),
                hash_name(request.path), request.offset, request.bytes,
                static_cast<uint8_t>(pending->result->code()));
  co_return *pending->result;
}

void SimDisk::crash(bool power_loss) {
  if (views_.empty() || !views_.back()->life_->alive) view();
  const auto life = views_.back()->life_;
  life->alive = false;
  for (const auto& [number, pending] : life->pending) {
    pending->result = Status{Code::kCancelled, "this machine crashed"};
    pending->done.open();
    if (!pending->written) continue;
    // A write under way has none of its blocks written, or some. Space for growth is settled like any other growth.
    const bool none = random_.coin();
    const uint64_t end = pending->offset + pending->data.size();
    if (none || unsynced_ == Unsynced::kDropped ||
        !pending->written->charge(std::max(end, pending->written->content.current().size())).ok()) {
      continue;
    }
    for (size_t at = 0; at < pending->data.size(); at += kSectorBytes) {
      if (unsynced_ == Unsynced::kKept || random_.coin()) {
        pending->written->content.write(pending->offset + at, pending->data.subspan(at, kSectorBytes));
      }
    }
  }
  life->pending.clear();
  for (const auto& [prefix, volume] : volumes_)
    volume->free_at = clock_.now();  // nobody waits any more for operations of the device
  tree_.commit_old(clock_.now());
  if (power_loss) tree_.lose_power(unsynced_, random_);
}

std::vector<std::string> SimDisk::list_now(const std::string& path) const {
  auto names = tree_.list(path);
  return names ? *names : std::vector<std::string>{};
}

Result<std::vector<std::byte>> SimDisk::read_now(const std::string& path) const {
  KINTSUGI_ASSIGN(InodePtr inode, tree_.find(path));
  std::vector<std::byte> bytes(inode->content.current().size());
  inode->content.current().read(0, bytes);
  return bytes;
}

}  // namespace kintsugi::simulation
