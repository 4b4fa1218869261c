/// What follows from stripes that a client has stored: where their chunks are is known at once, and what is missing of
/// them is told to the repairs.
#pragma once

#include <vector>

#include "metaserver/chunks/allocations.h"
#include "metaserver/chunks/block_reports.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/service/repair_host.h"

namespace kintsugi::metaserver {

class WrittenStripes {
 public:
  /// References outlive it.
  WrittenStripes(const Allocations& allocations, ChunkMap& chunks, BlockReports& reports,
                 const RepairHostSlot& host)
      : allocations_(allocations), chunks_(chunks), reports_(reports), host_(host) {}

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

  const Allocations& allocations_;
  ChunkMap& chunks_;
  BlockReports& reports_;
  const RepairHostSlot& host_;
};

}  // namespace kintsugi::metaserver
