/// How a file of very many extents is cut off: in steps, from its end, each of which is one transaction of bounded
/// size and leaves a shorter file. So whoever looks meanwhile, also after a crash, sees one that is not as short yet,
/// and who asks again completes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

class Cuts {
 public:
  /// Extents that one call of look() looks at: others have a turn between two.
  static constexpr size_t kLookedAt = 5000;

  Cuts(InodeId id, uint64_t size) : id_(id), size_(size), at_(size) {}

  /// Looks where the file can be cut. False: that is known. The file may change between two calls, and afterwards.
  bool look(const Reader& reader);
  bool is_looked_through() const { return looked_through_; }
  /// The next size to which the file is to be cut, greater ones first, and `size` last. REQUIRES: look() has returned
  /// false.
  uint64_t next() const { return sizes_.empty() ? size_ : sizes_.back(); }
  bool is_last() const { return sizes_.empty(); }
  void done() { sizes_.pop_back(); }
  /// Many more extents lie behind next() than when it was looked there: it is to be looked again.
  bool is_outdated(const Reader& reader) const;
  void start_again();

 private:
  const InodeId id_;
  const uint64_t size_;
  uint64_t at_;      ///< everything from this offset on has been examined
  size_t seen_ = 0;  ///< extents behind the last entry of `sizes_`
  bool looked_through_ = false;
  std::vector<uint64_t> sizes_;  ///< ascending; kMaxExtentsAStep extents lie between neighbours
};

}  // namespace kintsugi::metaserver
