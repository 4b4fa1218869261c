/// Bytes that come with a change of the metadata and are kept with it.
#pragma once

#include <string_view>

#include <google/protobuf/repeated_ptr_field.h>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// The bytes of all files of a call. kInvalidArgument: the call brings more of one file, or of all, than it may.
Result<uint64_t> inline_bytes_of(const proto::WriteExtentsRequest& request);

/// Has the extents, which name no stripe yet, name a new stripe `id` that keeps `bytes`: those of the first extent, of
/// the second, and so on. kInvalidArgument: they are others than the extents have. kCorrupt: they are others than were
/// sent.
Status keep_inline(Transaction& transaction, StripeId id, std::string_view bytes, uint32_t crc,
                   google::protobuf::RepeatedPtrField<proto::Extent>& extents);

}  // namespace kintsugi::metaserver
