/// One degraded read's conversation with the repair manager: it asks for plans and says how each went.
#pragma once

#include <vector>

#include "client/lib/degraded/lost_range.h"
#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/proto/agreed_numbers.h"
#include "common/proto/meta.pb.h"
#include "common/proto/repair.pb.h"
#include "common/runtime/context.h"
#include "partial_sum/sum_range.h"

namespace kintsugi::client {

class ReadPlans {
 public:
  /// Planning is a matter of milliseconds; a metaserver that is away is not waited for.
  static constexpr Duration kPlanLimit = std::chrono::seconds(2);

  /// Both outlive this.
  ReadPlans(Resources& resources, const LostRange& range) : resources_(resources), range_(range) {}

  /// Asks for a plan for [begin, range.end) without the servers that failed so far, or that this client avoids.
  asio::awaitable<Status> ask(Context context, const TreeWishes& wishes, uint64_t begin,
                              proto::PlanReadResponse& answer);
  /// The range that the plan sums up. kInternal: the plan is for something else than [begin, range.end) of the chunk;
  /// kInvalidArgument, kLimitExceeded: it makes no sense.
  Result<partial_sum::SumRange> check(const proto::SumPlan& plan, uint64_t begin) const;
  /// Leaves out the server that the failure blames from now on, and has the client avoid it for a while. False when
  /// that is none of the plan's: another plan would fail as well.
  bool exclude_culprit(const Status& failure, const proto::SumPlan& plan);
  /// Tells the repair manager that the plan is done with, and how it went. `outcome` has its timing, if it was
  /// followed. Nobody waits for the message.
  void finish(Context context, const proto::SumPlan& plan, const Status& status,
              proto::FinishReadRequest outcome);

 private:
  std::vector<ServerId> servers_to_exclude() const;

  Resources& resources_;
  const LostRange& range_;
  std::vector<ServerId> excluded_;
};

/// Helpers of the plan: servers that read a chunk for it, all levels of its tree counted.
std::vector<uint64_t> servers_of(const proto::SumPlan& plan);

}  // namespace kintsugi::client
