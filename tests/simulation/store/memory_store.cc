#include "tests/simulation/store/memory_store.h"

#include <set>

#include "common/base/assert.h"

namespace kintsugi::simulation {
namespace {

using Map = MemoryStoreDisk::Map;

std::optional<std::string> find(const Map& map, std::string_view key) {
  auto found = map.find(key);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

void scan_map(const Map& map, std::string_view begin, std::string_view end,
              const std::function<bool(std::string_view, std::string_view)>& visit) {
  for (auto at = map.lower_bound(begin); at != map.end() && (end.empty() || at->first < end); ++at) {
    if (!visit(at->first, at->second)) return;
  }
}

void apply_writes(Map& map, const std::vector<Batch::Write>& writes) {
  for (const Batch::Write& write : writes) {
    if (write.value) {
      map[write.key] = *write.value;
    } else {
      map.erase(write.key);
    }
  }
}

/// Nothing is left there but what the batch has put.
void check_emptied(const Map& map, const Batch::Emptied& range, const std::vector<Batch::Write>& writes) {
  std::set<std::string_view> put;
  for (const Batch::Write& write : writes) {
    if (write.key < range.begin || write.key >= range.end) continue;
    if (write.value) put.insert(write.key);
  }
  scan_map(map, range.begin, range.end, [&](std::string_view key, std::string_view) {
    KINTSUGI_ASSERT(put.contains(key));
    return true;
  });
}

class MemorySnapshot final : public ReadView {
 public:
  explicit MemorySnapshot(std::shared_ptr<const Map> map) : map_(std::move(map)) {}
  std::optional<std::string> get(std::string_view key) const override { return find(*map_, key); }
  void scan(std::string_view begin, std::string_view end,
            const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    scan_map(*map_, begin, end, visit);
  }

 private:
  std::shared_ptr<const Map> map_;
};

}  // namespace

void MemoryStoreDisk::apply_front() {
  apply_writes(durable_, unsynced_.front());
  unsynced_.pop_front();
  ++position_;
}

void MemoryStoreDisk::put_back(Copy copy) {
  durable_ = std::move(copy.durable);
  position_ = copy.position;
}

void MemoryStoreDisk::crash(size_t survivors) {
  while (survivors-- > 0 && !unsynced_.empty() && !broken_)
    apply_front();
  unsynced_.clear();
  ++owner_;
  broken_ = false;
}

MemoryStore::MemoryStore(asio::any_io_executor executor, runtime::Clock& clock, MemoryStoreDisk& disk,
                         Duration sync_latency)
    : clock_(clock),
      disk_(disk),
      owner_(++disk.owner_),
      sync_latency_(sync_latency),
      barrier_(std::move(executor), [this](const Status& why) { on_failure(why); }),
      view_(std::make_shared<Map>(disk.durable_)) {
  disk_.unsynced_.clear();
}

MemoryStore::~MemoryStore() {
  if (timer_ != runtime::TimerId::kNone) clock_.cancel(timer_);
}

std::optional<std::string> MemoryStore::get(std::string_view key) const {
  return find(*view_, key);
}

void MemoryStore::scan(std::string_view begin, std::string_view end,
                       const std::function<bool(std::string_view, std::string_view)>& visit) const {
  scan_map(*view_, begin, end, visit);
}

std::unique_ptr<const ReadView> MemoryStore::snapshot() const {
  return std::make_unique<MemorySnapshot>(view_);
}

asio::awaitable<Status> MemoryStore::commit(Batch batch) {
  if (!owns_disk()) barrier_.fail({Code::kIoError, "the disk was taken away"});
  if (!barrier_.failure().ok()) co_return barrier_.failure();
  if (batch.writes.empty()) co_return co_await durable();
  if (view_.use_count() > 1) view_ = std::make_shared<Map>(*view_);
  apply_writes(*view_, batch.writes);
  for (const Batch::Emptied& range : batch.emptied)
    check_emptied(*view_, range, batch.writes);
  const uint64_t sequence = barrier_.issue();
  disk_.unsynced_.push_back(std::move(batch.writes));
  if (timer_ == runtime::TimerId::kNone) begin_sync();
  co_return co_await barrier_.wait(sequence);
}

void MemoryStore::begin_sync() {
  timer_ = clock_.call_at(clock_.now() + sync_latency_,
                          [this, batches = disk_.unsynced_.size()] { end_sync(batches); });
}

void MemoryStore::end_sync(size_t batches) {
  timer_ = runtime::TimerId::kNone;
  if (!owns_disk()) return barrier_.fail({Code::kIoError, "the disk was taken away"});
  if (disk_.broken_) return barrier_.fail({Code::kIoError, "commit: sync failed"});
  for (size_t i = 0; i < batches; ++i)
    disk_.apply_front();
  synced_ += batches;
  barrier_.advance(synced_);
  if (!disk_.unsynced_.empty()) begin_sync();
}

asio::awaitable<Status> MemoryStore::durable() {
  return barrier_.wait(barrier_.issued());
}

asio::awaitable<void> MemoryStore::close() {
  (void)co_await durable();
}

}  // namespace kintsugi::simulation
