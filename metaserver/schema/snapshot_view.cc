#include "metaserver/schema/snapshot_view.h"

#include <deque>
#include <utility>

#include "common/base/assert.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kReadAhead = 128;
constexpr char kIsAbsent = 1, kInAny = 2;

using Pair = std::pair<std::string, std::optional<std::string>>;

/// Reads a range a page at a time, so that two can be read side by side.
class Cursor {
 public:
  Cursor(const ReadView& store, std::string begin, std::string end)
      : store_(store), begin_(std::move(begin)), end_(std::move(end)) {}

  /// The next pair; none at the end.
  const Pair* peek() {
    if (read_ahead_.empty() && !complete_) fill();
    return read_ahead_.empty() ? nullptr : &read_ahead_.front();
  }
  Pair take() {
    Pair pair = std::move(read_ahead_.front());
    read_ahead_.pop_front();
    return pair;
  }

 private:
  void fill() {
    complete_ = true;
    store_.scan(begin_, end_, [&](std::string_view key, std::string_view value) {
      if (read_ahead_.size() == kReadAhead) {
        complete_ = false;
        return false;
      }
      read_ahead_.emplace_back(std::string(key), std::string(value));
      return true;
    });
    if (!read_ahead_.empty()) begin_ = read_ahead_.back().first + '\0';
  }

  const ReadView& store_;
  std::string begin_;
  const std::string end_;
  std::deque<Pair> read_ahead_;
  bool complete_ = false;
};

/// The keys of a range that have a saved value for the snapshot, each with that value.
class SavedCursor {
 public:
  SavedCursor(const ReadView& store, const keys::Range& range, uint64_t snapshot)
      : range_(range),
        snapshot_(snapshot),
        cursor_(store, keys::SavedKey::values_in(range).begin, keys::SavedKey::values_in(range).end) {}

  const Pair* peek() {
    while (!next_) {
      const Pair* saved = cursor_.peek();
      if (saved == nullptr) return nullptr;
      keys::SavedKey at = keys::SavedKey::of_value(saved->first);
      const bool wanted = at.number >= snapshot_ && at.key != last_ && at.key >= range_.begin &&
                          (range_.end.empty() || at.key < range_.end);
      if (wanted) {
        last_ = std::move(at.key);
        next_.emplace(last_, SavedValue::parse(*saved->second).value);
      }
      cursor_.take();
    }
    return &*next_;
  }
  Pair take() { return *std::exchange(next_, std::nullopt); }

 private:
  const keys::Range range_;
  const uint64_t snapshot_;
  Cursor cursor_;
  /// The key whose value was found last. Later values of it are for newer snapshots.
  std::string last_;
  std::optional<Pair> next_;
};

}  // namespace

std::string SavedValue::serialise() const {
  std::string bytes;
  bytes.push_back(static_cast<char>((value ? 0 : kIsAbsent) | (in_any ? kInAny : 0)));
  for (int shift = 56; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<char>(born >> shift));
  if (value) bytes.append(*value);
  return bytes;
}

SavedValue SavedValue::parse(std::string_view bytes) {
  KINTSUGI_ASSERT(bytes.size() >= 9);
  SavedValue saved;
  for (size_t i = 1; i < 9; ++i)
    saved.born = saved.born << 8 | static_cast<uint8_t>(bytes[i]);
  saved.in_any = (bytes[0] & kInAny) != 0;
  if ((bytes[0] & kIsAbsent) == 0) saved.value = std::string(bytes.substr(9));
  return saved;
}

bool is_saved_kind(std::string_view key) {
  using keys::Kind;
  if (key.empty()) return false;
  switch (static_cast<Kind>(key[0])) {
    case Kind::kInode:
    case Kind::kEntry:
    case Kind::kExtent:
    case Kind::kXattr: return true;
    default: return false;
  }
}

std::optional<SavedValue> find_saved(const ReadView& store, std::string_view key, uint64_t snapshot) {
  std::optional<SavedValue> saved;
  scan_saved(store, key, snapshot, keys::SavedKey::kEnd, [&](uint64_t, std::string_view value) {
    saved = SavedValue::parse(value);
    return false;
  });
  return saved;
}

void scan_saved(const ReadView& store, std::string_view key, uint64_t first, uint64_t end,
                const std::function<bool(uint64_t, std::string_view)>& visit) {
  const keys::Range range = keys::SavedKey::values_of(key, first, end);
  store.scan(range.begin, range.end, [&](std::string_view stored, std::string_view value) {
    const keys::SavedKey at = keys::SavedKey::of_value(stored);
    // A client may ask for a name with a NUL, which could pass for the first byte of a number.
    return at.key == key && visit(at.number, value);
  });
}

std::optional<std::string> SnapshotView::get(std::string_view key) const {
  if (!is_saved_kind(key)) return store_.get(key);
  std::optional<SavedValue> saved = find_saved(store_, key, snapshot_);
  return saved ? std::move(saved->value) : store_.get(key);
}

void SnapshotView::scan(std::string_view begin, std::string_view end,
                        const std::function<bool(std::string_view, std::string_view)>& visit) const {
  if (!is_saved_kind(begin)) return store_.scan(begin, end, visit);
  Cursor now(store_, std::string(begin), std::string(end));
  SavedCursor saved(store_, {std::string(begin), std::string(end)}, snapshot_);
  while (true) {
    const Pair* left = now.peek();
    const Pair* right = saved.peek();
    if (left == nullptr && right == nullptr) return;
    if (right == nullptr || (left != nullptr && left->first < right->first)) {
      const Pair pair = now.take();
      if (!visit(pair.first, *pair.second)) return;
      continue;
    }
    if (left != nullptr && left->first == right->first) now.take();
    const Pair pair = saved.take();
    if (pair.second && !visit(pair.first, *pair.second)) return;
  }
}

}  // namespace kintsugi::metaserver
