/// New extents of files, within a transaction: what a client has written, or what lies elsewhere from now on.
#pragma once

#include <string_view>
#include <vector>

#include "metaserver/repair/compactions.h"
#include "metaserver/schema/extents.h"
#include "metaserver/schema/id_allocator.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

inline constexpr int kMaxExtentsReplaced = 16'384;  ///< limit for one compaction

/// New extents of one file.
struct FileWrite {
  InodeId inode;
  uint64_t session = 0;
  const google::protobuf::RepeatedPtrField<proto::Extent>& extents;
  uint64_t size_at_least = 0;
  int64_t modified_ns = 0;
  bool keep_times = false, kill_privileges = false;
  std::string_view inline_data;  ///< contents of the extents, which then name no stripe; empty: they name one
  uint32_t inline_crc = 0;
  size_t most = SIZE_MAX;  ///< limit for the extents that are changed
};

/// What a write found out and has done, beside its transaction.
struct WriteEffects {
  std::vector<ChunkId> missing;
  FreedStripes freed;
  bool too_long = false;  ///< the write must be done in steps, and the transaction dropped
};

class FileWriter {
 public:
  /// References outlive it.
  FileWriter(MetaStore& store, NamespaceParts& names, Clients& clients, IdAllocator& stripe_ids,
             Compactions& compactions)
      : store_(store), names_(names), clients_(clients), stripe_ids_(stripe_ids), compactions_(compactions) {}

  /// Puts the extents into the file. They may name `stripes`, which are in order. kStale: the file is gone; kLeaseLost.
  Status write(Transaction& transaction, const FileWrite& wanted, std::vector<StripeId> stripes,
               WriteEffects& effects, proto::Attributes& attributes);
  /// Has the same bytes lie elsewhere. kConflict: not all that `request` replaces is there any more.
  Status compact(Transaction& transaction, const proto::WriteExtentsRequest& request,
                 const std::vector<StripeId>& stripes, FreedStripes& freed);

 private:
  void note_times(proto::StoredInode& inode, int64_t modified_ns) const;
  /// Tells the compactions how the file's new extents lie, and what they left behind.
  void note_layout(const Transaction& transaction, const FileWrite& wanted,
                   const google::protobuf::RepeatedPtrField<proto::Extent>& extents,
                   const std::vector<StripeId>& shrunken);

  MetaStore& store_;
  NamespaceParts& names_;
  Clients& clients_;
  IdAllocator& stripe_ids_;
  Compactions& compactions_;
};

}  // namespace kintsugi::metaserver
