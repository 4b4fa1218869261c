#include "client/lib/dirty/dirty_ranges.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/base/assert.h"

namespace kintsugi::client {

size_t DirtyRanges::write(DirtyBuffers& buffers, uint64_t inode, uint64_t offset,
                          std::span<const std::byte> bytes, int64_t modified_ns, bool kill_privileges) {
  size_t done = 0;
  while (done < bytes.size()) {
    const uint64_t at = offset + done;
    const auto next = pieces_.upper_bound(at);
    const uint64_t limit = next == pieces_.end() ? UINT64_MAX : next->first;
    uint64_t take = std::min<uint64_t>(bytes.size() - done, limit - at);
    DirtyPiece* piece = next == pieces_.begin() ? nullptr : &std::prev(next)->second;
    if (piece && at < piece->end()) {
      take = std::min<uint64_t>(take, piece->end() - at);
    } else if (piece && at == piece->end() && piece->room() > 0) {
      take = std::min<uint64_t>(take, piece->room());
      bytes_ += take;
    } else {
      DirtyPiece fresh = buffers.take(inode, at);
      if (!fresh) break;
      piece = &pieces_.emplace_hint(next, at, std::move(fresh))->second;
      take = std::min<uint64_t>(take, piece->room());
      bytes_ += take;
    }
    piece->put(at, bytes.subspan(done, take), modified_ns, kill_privileges);
    done += take;
  }
  return done;
}

void DirtyRanges::add(DirtyPiece piece) {
  bytes_ += piece.length();
  const uint64_t offset = piece.offset();
  const bool added = pieces_.emplace(offset, std::move(piece)).second;
  KINTSUGI_ASSERT(added);
}

void DirtyRanges::cut(uint64_t end) {
  while (!pieces_.empty() && pieces_.rbegin()->second.end() > end) {
    const auto last = std::prev(pieces_.end());
    bytes_ -= last->second.length();
    if (last->first >= end) {
      pieces_.erase(last);
      continue;
    }
    last->second.cut(end);
    bytes_ += last->second.length();
  }
}

void DirtyRanges::overlay(uint64_t offset, std::span<std::byte> into, std::vector<ByteRange>& missing) const {
  if (pieces_.empty() || missing.empty()) return;
  const uint64_t last = offset + into.size();
  std::vector<ByteRange> left;
  for (const ByteRange& range : missing) {
    uint64_t at = range.begin;
    auto piece = pieces_.upper_bound(at);
    if (piece != pieces_.begin() && std::prev(piece)->second.end() > at) --piece;
    for (; piece != pieces_.end() && piece->first < range.end; ++piece) {
      const uint64_t from = std::max(at, piece->first), to = std::min(range.end, piece->second.end());
      if (from > at) left.push_back({at, from});
      KINTSUGI_ASSERT(from >= offset && to <= last);
      std::memcpy(into.data() + (from - offset), piece->second.bytes().data() + (from - piece->first),
                  to - from);
      at = to;
    }
    if (at < range.end) left.push_back({at, range.end});
  }
  missing = std::move(left);
}

int64_t DirtyRanges::modified_ns() const {
  int64_t latest = 0;
  for (const auto& [offset, piece] : pieces_)
    latest = std::max(latest, piece.modified_ns());
  return latest;
}

void DirtyRanges::set_modified(int64_t modified_ns) {
  for (auto& [offset, piece] : pieces_)
    piece.set_modified(modified_ns);
}

bool DirtyRanges::kill_privileges() const {
  return std::ranges::any_of(pieces_, [](const auto& piece) { return piece.second.kill_privileges(); });
}

void DirtyRanges::keep_privileges() {
  for (auto& [offset, piece] : pieces_)
    piece.keep_privileges();
}

std::vector<ByteRange> DirtyRanges::runs() const {
  std::vector<ByteRange> runs;
  for (const auto& [offset, piece] : pieces_) {
    if (!runs.empty() && runs.back().end == offset) {
      runs.back().end = piece.end();
    } else {
      runs.push_back({offset, piece.end()});
    }
  }
  return runs;
}

ByteRange DirtyRanges::long_run(uint64_t least, uint64_t most) const {
  ByteRange run;
  for (const auto& [offset, piece] : pieces_) {
    if (run.end != offset || run.length() == 0) run = {offset, offset};
    if (piece.end() - run.begin > most && run.length() >= least) return run;
    run.end = piece.end();
  }
  return run.length() >= least ? run : ByteRange{};
}

uint64_t DirtyRanges::next_data(uint64_t offset) const {
  auto piece = pieces_.upper_bound(offset);
  if (piece != pieces_.begin() && std::prev(piece)->second.end() > offset) return offset;
  return piece == pieces_.end() ? UINT64_MAX : piece->first;
}

uint64_t DirtyRanges::next_gap(uint64_t offset) const {
  auto piece = pieces_.upper_bound(offset);
  if (piece == pieces_.begin()) return offset;
  for (--piece; piece != pieces_.end() && piece->first <= offset; ++piece)
    offset = std::max(offset, piece->second.end());
  return offset;
}

DirtyRanges DirtyRanges::split(ByteRange range, size_t most) {
  DirtyRanges taken;
  for (auto piece = pieces_.lower_bound(range.begin);
       piece != pieces_.end() && piece->second.end() <= range.end && taken.buffers() < most;) {
    bytes_ -= piece->second.length();
    taken.bytes_ += piece->second.length();
    taken.pieces_.insert(taken.pieces_.end(), pieces_.extract(piece++));
  }
  return taken;
}

}  // namespace kintsugi::client
