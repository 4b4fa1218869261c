/// What was written to one file and is not durable yet, in layers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "client/lib/dirty/dirty_ranges.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"

namespace kintsugi::client {

/// Bytes that are being written out, or whose writing has failed. Operations on the whole file change them while the
/// layer is not under way, and nobody else does before it is durable.
struct DirtyLayer {
  uint64_t number = 0;
  uint64_t span = 0;  ///< the region that writes the layer out, as the target of waits
  DirtyRanges ranges;
  bool under_way = false;
  bool discarded = false;
  bool told = false;  ///< whether the layer's failure has been counted
  Status failure;
};

/// Written bytes are in newest(). To be written out they are frozen: they become a layer. Newer bytes lie over older
/// ones: newest() over the layers, a later layer over an earlier one, all over what is stored.
class DirtyLayers {
 public:
  using Layer = std::shared_ptr<DirtyLayer>;

  DirtyRanges& newest() { return newest_; }
  const DirtyRanges& newest() const { return newest_; }
  /// Older ones come first.
  const std::deque<Layer>& layers() const { return layers_; }
  /// The number of the last one that was added.
  uint64_t last_number() const { return last_number_; }

  bool empty() const { return newest_.empty() && layers_.empty(); }
  uint64_t bytes() const;
  size_t buffers() const;
  /// Where the last of the bytes ends; 0: there are none.
  uint64_t end() const;
  bool has_under_way() const;
  bool has_failed() const;
  /// The region that writes out the oldest bytes that are being written out.
  uint64_t writing_span() const { return layers_.empty() ? 0 : layers_.front()->span; }

  // ---- what a reader sees
  /// Copies what is here of [offset, offset + into.size()) and takes it off `missing`, which is ordered and disjoint.
  void overlay(uint64_t offset, std::span<std::byte> into, std::vector<ByteRange>& missing) const;
  /// The first byte from `offset` on that is here. UINT64_MAX: none.
  uint64_t next_data(uint64_t offset) const;
  /// Goes from `offset` over what is here, once in each layer, and may have to resume: a layer can begin where a later
  /// one ends. The same offset: nothing is here.
  uint64_t next_gap(uint64_t offset) const;
  /// Makes of stored attributes exactly what the metaserver will say once the bytes are written out, so that nothing
  /// changes then.
  void apply_to(proto::Attributes& attributes) const;
  bool kills_privileges() const;

  // ---- layers
  Layer add(DirtyRanges ranges);
  /// A piece that a process before this one left. What it overlaps with becomes a layer below it, as if its writing
  /// had failed.
  void recover(DirtyPiece piece);
  bool is_first(const DirtyLayer& layer) const { return layers_.front().get() == &layer; }
  /// The oldest layer is durable.
  void pop_first();
  void erase(const Layer& layer) { std::erase(layers_, layer); }

  // ---- operations on the whole file
  void cut(uint64_t size);
  /// As if everything had been written then: the file's time was set after it was written.
  void set_modified(int64_t modified_ns);
  /// The file's mode was set after everything was written.
  void keep_privileges();
  /// Gives everything up. Layers that are under way stay until their upload has ended.
  void discard();

 private:
  template <class Look>
  void each(Look look) const;
  template <class Change>
  void change_each(Change change);

  DirtyRanges newest_;
  std::deque<Layer> layers_;
  uint64_t last_number_ = 0;
};

}  // namespace kintsugi::client
