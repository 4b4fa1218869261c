/// Tells the metaserver of chunks that were found missing or corrupt, each once.
#pragma once

#include <set>

#include "client/lib/meta_link.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/runtime/context.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

class ChunkReports {
 public:
  static constexpr size_t kMaxReported = 10000;  ///< chunks reported; the servers' own checks find the rest

  /// Reports are sent by tasks of `background`. Both outlive this.
  ChunkReports(MetaLink& meta, runtime::TaskGroup& background) : meta_(meta), background_(background) {}

  /// The chunk is not on `server`, or not as it was written: `found` is kNotFound or kCorrupt. Nobody waits for the
  /// report, and one that is lost is not sent again.
  void report(Context context, ChunkId chunk, ServerId server, const Status& found);

 private:
  MetaLink& meta_;
  runtime::TaskGroup& background_;
  std::set<ChunkId> reported_;
};

}  // namespace kintsugi::client
