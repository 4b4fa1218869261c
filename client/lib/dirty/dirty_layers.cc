#include "client/lib/dirty/dirty_layers.h"

#include <algorithm>

#include "common/posix/set_ids.h"

namespace kintsugi::client {

template <class Look>
void DirtyLayers::each(Look look) const {
  for (const auto& layer : layers_)
    look(std::as_const(layer->ranges));
  look(newest_);
}

template <class Change>
void DirtyLayers::change_each(Change change) {
  for (const auto& layer : layers_)
    change(layer->ranges);
  change(newest_);
}

uint64_t DirtyLayers::bytes() const {
  uint64_t bytes = 0;
  each([&](const DirtyRanges& ranges) { bytes += ranges.bytes(); });
  return bytes;
}

size_t DirtyLayers::buffers() const {
  size_t buffers = 0;
  each([&](const DirtyRanges& ranges) { buffers += ranges.buffers(); });
  return buffers;
}

uint64_t DirtyLayers::end() const {
  uint64_t end = 0;
  each([&](const DirtyRanges& ranges) { end = std::max(end, ranges.end()); });
  return end;
}

bool DirtyLayers::has_under_way() const {
  return std::ranges::any_of(layers_, [](const auto& layer) { return layer->under_way; });
}

bool DirtyLayers::has_failed() const {
  return std::ranges::any_of(layers_, [](const auto& layer) { return !layer->under_way; });
}

// ---- what a reader sees

void DirtyLayers::overlay(uint64_t offset, std::span<std::byte> into, std::vector<ByteRange>& missing) const {
  newest_.overlay(offset, into, missing);
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer)
    (*layer)->ranges.overlay(offset, into, missing);
}

uint64_t DirtyLayers::next_data(uint64_t offset) const {
  uint64_t next = UINT64_MAX;
  each([&](const DirtyRanges& ranges) { next = std::min(next, ranges.next_data(offset)); });
  return next;
}

uint64_t DirtyLayers::next_gap(uint64_t offset) const {
  each([&](const DirtyRanges& ranges) { offset = std::max(offset, ranges.next_gap(offset)); });
  return offset;
}

void DirtyLayers::apply_to(proto::Attributes& attributes) const {
  each([&](const DirtyRanges& ranges) {
    if (ranges.empty()) return;
    const int64_t modified = ranges.modified_ns();
    const bool time_was_set = modified == attributes.modified_ns();
    attributes.set_changed_ns(std::max(attributes.changed_ns() + 1, time_was_set ? 0 : modified));
    attributes.set_modified_ns(modified);
    if (ranges.kill_privileges()) attributes.set_mode(posix::without_set_ids(attributes.mode()));
  });
}

bool DirtyLayers::kills_privileges() const {
  bool kills = false;
  each([&](const DirtyRanges& ranges) { kills = kills || ranges.kill_privileges(); });
  return kills;
}

// ---- layers

DirtyLayers::Layer DirtyLayers::add(DirtyRanges ranges) {
  const auto layer = std::make_shared<DirtyLayer>();
  layer->number = ++last_number_;
  layer->ranges = std::move(ranges);
  layers_.push_back(layer);
  return layer;
}

void DirtyLayers::recover(DirtyPiece piece) {
  // What overlaps lies in another layer, which is written out before.
  if (newest_.next_data(piece.offset()) < piece.end()) {
    add(std::exchange(newest_, {}))->failure = {Code::kUnavailable, "not written out yet"};
  }
  newest_.add(std::move(piece));
}

void DirtyLayers::pop_first() {
  // Its buffers are free before the next layer may be part of the file: whoever finds them in the memory of a process
  // that died would write old bytes over newer ones.
  const Layer durable = std::move(layers_.front());
  layers_.pop_front();
  durable->ranges = {};
}

// ---- operations on the whole file

void DirtyLayers::cut(uint64_t size) {
  change_each([&](DirtyRanges& ranges) { ranges.cut(size); });
  std::erase_if(layers_, [](const auto& layer) { return layer->ranges.empty(); });
}

void DirtyLayers::set_modified(int64_t modified_ns) {
  change_each([&](DirtyRanges& ranges) { ranges.set_modified(modified_ns); });
}

void DirtyLayers::keep_privileges() {
  change_each([](DirtyRanges& ranges) { ranges.keep_privileges(); });
}

void DirtyLayers::discard() {
  newest_ = {};
  for (const auto& layer : layers_)
    layer->discarded = true;
  std::erase_if(layers_, [](const auto& layer) { return !layer->under_way; });
}

}  // namespace kintsugi::client
