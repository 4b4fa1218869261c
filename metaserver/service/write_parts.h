/// Stripes that clients are writing and have written: uploads, and what follows once their stripes are stored.
#pragma once

#include "common/runtime/clock.h"
#include "metaserver/chunks/uploads.h"
#include "metaserver/cluster/options.h"
#include "metaserver/service/chunk_parts.h"
#include "metaserver/service/new_stripes.h"
#include "metaserver/service/repair_host.h"
#include "metaserver/service/written_stripes.h"

namespace kintsugi::metaserver {

struct WriteParts {
  /// References outlive it.
  WriteParts(const runtime::Clock& clock, const MetaServerOptions& options, NewStripes& new_stripes,
             ChunkParts& chunks, const RepairHostSlot& host)
      : uploads(new_stripes.allocations, chunks.map.servers(), chunks.garbage, options, clock),
        written(new_stripes.allocations, chunks.map, chunks.block_reports, host) {}

  Uploads uploads;
  WrittenStripes written;
};

}  // namespace kintsugi::metaserver
