/// What follows from stripes that a client has stored: where their chunks are is known at once, and what is missing of
/// them is told to the repairs.
#pragma once

#include <vector>

#include "metaserver/service/cluster_parts.h"

namespace kintsugi::metaserver {

class WrittenStripes {
 public:
  /// References outlive it.
  explicit WrittenStripes(ClusterParts& cluster) : cluster_(cluster) {}

  /// To be called before the commit suspends: a block report that was collected earlier may come in meanwhile.
  void note_placed(const proto::SealedStripe& sealed);
  void note_placed(const google::protobuf::RepeatedPtrField<proto::SealedStripe>& sealed);

  /// Tells the host what is to be repaired of stripes that are stored: chunks that `missing` names, and those whose
  /// server died while their stripe was being written. What the metadata placed on it was told as lost at its death,
  /// and did not include them yet.
  void report(const google::protobuf::RepeatedPtrField<proto::SealedStripe>& sealed,
              const std::vector<ChunkId>& missing);
  void report(const proto::SealedStripe& sealed, const std::vector<ChunkId>& missing);

 private:
  void report_missing(const std::vector<ChunkId>& missing);
  void report_unreachable(const proto::SealedStripe& sealed);

  ClusterParts& cluster_;
};

}  // namespace kintsugi::metaserver
