#include "monitoring/sight/thread_log.h"

#include <bit>
#include <cstring>

#include "common/base/assert.h"

namespace kintsugi::sight {

namespace {

static_assert(std::is_trivially_copyable_v<Event> && sizeof(Event) % 8 == 0);

constexpr Site kOtherSite{"other"};

/// The writer is alone, so a load and a store do what an atomic add would, at the price of a plain add.
void add_relaxed(std::atomic<uint64_t>& counter, uint64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace

size_t duration_bucket(Duration duration) {
  const auto microseconds = static_cast<uint64_t>(std::max<int64_t>(0, duration.count()) / 1000);
  return std::min<size_t>(std::bit_width(microseconds), PathTotals::kBuckets - 1);
}

EventRing::EventRing(size_t events) : slots_(events) {
  KINTSUGI_ASSERT(events > 0);
}

void EventRing::push(const Event& event) {
  const uint64_t number = pushed_.load(std::memory_order_relaxed);
  Slot& slot = slots_[next_];
  next_ = next_ + 1 == slots_.size() ? 0 : next_ + 1;
  // An odd number says that the words are being written. The fence keeps the words behind it, and the release below
  // keeps them before the even number: who reads that number before and after its copy has a whole event.
  slot.sequence.store(2 * number + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t i = 0; i < kWords; ++i)
    slot.words[i].store(reinterpret_cast<const Word*>(&event)[i], std::memory_order_relaxed);
  slot.sequence.store(2 * (number + 1), std::memory_order_release);
  // The ring is as large as a core's cache: the next slot's lines are fetched while the work continues, not when they
  // are written.
  for (size_t byte = 0; byte < sizeof(Slot); byte += 64)
    __builtin_prefetch(reinterpret_cast<const char*>(&slots_[next_]) + byte, 1);
  pushed_.store(number + 1, std::memory_order_release);
}

void EventRing::collect(size_t at_most, std::vector<Event>& newest) const {
  const uint64_t pushed = pushed_.load(std::memory_order_acquire);
  const uint64_t available = std::min<uint64_t>({pushed, slots_.size(), at_most});
  for (uint64_t back = 1; back <= available; ++back) {
    const uint64_t number = pushed - back;
    const Slot& slot = slots_[number % slots_.size()];
    if (slot.sequence.load(std::memory_order_acquire) != 2 * (number + 1)) continue;
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i)
      words[i] = slot.words[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    // The writer came round meanwhile: the words may be of two events, so this one is left out.
    if (slot.sequence.load(std::memory_order_relaxed) != 2 * (number + 1)) continue;
    Event event;
    std::memcpy(static_cast<void*>(&event), words.data(), sizeof(event));
    newest.push_back(event);
  }
}

PathTable::PathTable(size_t max_paths)
    : slots_(std::bit_ceil(max_paths * 2 + 2)), mask_(slots_.size() - 1), max_paths_(max_paths) {}

PathTable::Entry& PathTable::entry_of(uint64_t path, uint64_t parent_path, const Site& site,
                                      const LiveWork::Closed& closed) {
  // The walk ends: the table has more than twice as many slots as paths are let in.
  for (size_t i = path & mask_;; i = (i + 1) & mask_) {
    Entry* const found = slots_[i].load(std::memory_order_relaxed);
    if (found && found->path == path) return *found;
    if (found) continue;
    if (entries_.size() >= max_paths_ && path != kOtherSite.id())
      return entry_of(kOtherSite.id(), 0, kOtherSite, {});
    Entry& entry = entries_.emplace_back(path, parent_path, &site, closed.role_path, closed.where);
    // Stored last: a reader that sees the entry sees what is in it.
    slots_[i].store(&entry, std::memory_order_release);
    return entry;
  }
}

void PathTable::add(const Event& event, uint64_t parent_path, const LiveWork::Closed& closed) {
  Entry& entry = entry_of(event.path, parent_path, *event.site, closed);
  uint64_t visits = 1;
  // What is recorded always stands for itself only.
  if (closed.sampled && event.code == Code::kOk && event.duration < kAlwaysRecorded)
    visits += entry.uncounted.load(std::memory_order_relaxed);
  add_relaxed(entry.count, visits);
  if (visits > 1) entry.uncounted.store(0, std::memory_order_relaxed);
  if (event.code != Code::kOk) add_relaxed(entry.errors, 1);
  add_relaxed(entry.total_ns, visits * static_cast<uint64_t>(std::max<int64_t>(0, event.duration.count())));
  add_relaxed(entry.self_ns, visits * static_cast<uint64_t>(std::max<int64_t>(0, event.self.count())));
  add_relaxed(entry.histogram[duration_bucket(event.duration)], visits);
}

void PathTable::collect(std::vector<PathTotals>& into, std::unordered_map<uint64_t, size_t>& places) const {
  for (const std::atomic<Entry*>& slot : slots_) {
    const Entry* const found = slot.load(std::memory_order_acquire);
    if (!found) continue;
    const Entry& entry = *found;
    const auto [place, is_new] = places.emplace(entry.path, into.size());
    if (is_new) {
      PathTotals fresh;
      fresh.path = entry.path;
      fresh.parent_path = entry.parent_path;
      fresh.site = entry.site;
      fresh.role_path = entry.role_path;
      fresh.where = entry.where;
      into.push_back(fresh);
    }
    PathTotals& totals = into[place->second];
    totals.count += entry.count.load(std::memory_order_relaxed);
    totals.errors += entry.errors.load(std::memory_order_relaxed);
    totals.total += Duration(entry.total_ns.load(std::memory_order_relaxed));
    totals.self += Duration(entry.self_ns.load(std::memory_order_relaxed));
    for (size_t bucket = 0; bucket < PathTotals::kBuckets; ++bucket)
      totals.histogram[bucket] += entry.histogram[bucket].load(std::memory_order_relaxed);
  }
}

void PathTable::count_ended(std::unordered_map<const Site*, uint64_t>& into) const {
  for (const std::atomic<Entry*>& slot : slots_)
    if (const Entry* const entry = slot.load(std::memory_order_acquire))
      into[entry->site] +=
          entry->count.load(std::memory_order_relaxed) + entry->uncounted.load(std::memory_order_relaxed);
}

}  // namespace kintsugi::sight
