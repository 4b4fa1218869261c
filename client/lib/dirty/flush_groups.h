/// Group commit over files: what several files have to write out at the same time goes into common stripes and one
/// change of the metadata.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "client/lib/dirty/group_upload.h"
#include "client/lib/leases/inode_calls.h"
#include "client/lib/resources.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// The first one to come does not wait for others; those that come while groups are under way make the next one.
class FlushGroups {
 public:
  static constexpr size_t kAtOnce = 2;                    ///< groups that are written at the same time
  static constexpr uint64_t kMaxMemberBytes = 256 << 10;  ///< larger pieces of work get stripes of their own
  static constexpr uint64_t kMaxBytes = 4 << 20;          ///< usual size limit of a group
  static constexpr size_t kMaxFiles = 512, kMaxPieces = 8192;
  /// A stripe that was allocated ahead and that nothing came for is given up after so long.
  static constexpr Duration kPreparedFor = std::chrono::milliseconds(500);

  /// After the metaserver refused to keep bytes itself it is not asked again for so long.
  static constexpr Duration kAllToStripes = std::chrono::seconds(10);

  struct Counts {
    uint64_t stripes = 0, extents = 0, groups = 0;
    uint64_t inline_groups = 0;  ///< groups whose bytes went to the metaserver
  };

  FlushGroups(Resources& resources, InodeCalls& calls, runtime::TaskGroup& tasks, Context context);

  /// Durable on return, with the file's attributes then. kStale: the file is gone; kLeaseLost. kCancelled: it was
  /// discarded meanwhile. REQUIRES: at most kMaxMemberBytes, and nothing older of the file is still to be written.
  asio::awaitable<Result<proto::Attributes>> write(Context context, UploadMember member);

  const Counts& counts() const { return counts_; }

 private:
  struct Waiting {
    UploadMember member;
    bool alone = false;  ///< the file is written alone, because it may have made a group fail
    std::optional<Result<proto::Attributes>> result;
    uint64_t span = 0;  ///< the region that writes its group; 0: it waits for its turn
  };
  using Group = std::vector<std::shared_ptr<Waiting>>;

  asio::awaitable<void> run();
  Group next_group();
  asio::awaitable<void> write_group(const Group& group);
  /// Nothing: the metaserver keeps none of it.
  asio::awaitable<bool> write_inline(Context context, const Group& group,
                                     const std::vector<UploadMember>& members);
  /// Tells the members `told` of the group's what became of the call.
  void take(const Group& group, const std::vector<size_t>& told,
            const Result<proto::WriteExtentsResponse>& written);
  /// The upload that was prepared for such a group, if there is one; in any case the next one is prepared.
  std::unique_ptr<Upload> take_prepared(const std::vector<UploadMember>& members);
  asio::awaitable<void> drop_unused();

  Resources& resources_;
  InodeCalls& calls_;
  runtime::TaskGroup& tasks_;
  const Context context_;
  std::deque<std::shared_ptr<Waiting>> queue_;
  size_t running_ = 0;
  Counts counts_;
  TimePoint inline_again_{};
  runtime::Event done_;

  struct Prepared {
    std::string policy;
    TimePoint since;
    std::unique_ptr<Upload> upload;
  };
  std::optional<Prepared> prepared_;
  bool dropping_ = false;  ///< drop_unused() runs
};

}  // namespace kintsugi::client
