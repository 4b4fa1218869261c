#include "metaserver/service/repair_limit_service.h"

#include "common/base/human_bytes.h"
#include "common/base/operator_limits.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kLimit{"metaserver.limit_repairs"};

}  // namespace

void RepairLimitService::register_on(rpc::Server& server) {
  server.handle<&RepairLimitService::limit_repairs>(rpc::Method::kLimitRepairs, *this);
}

asio::awaitable<Status> RepairLimitService::limit_repairs(Context context,
                                                          const proto::LimitRepairsRequest& request,
                                                          proto::Empty&) {
  sight::Module module{context, kLimit};
  const uint64_t wanted = request.bytes_per_second();
  if (wanted != 0 && (wanted < kLeastRepairLimit || wanted > kMostRepairLimit))
    co_return module.finish(
        {Code::kInvalidArgument, fmt::format("a limit of repairs is {} to {} a second, or off",
                                             human_bytes(kLeastRepairLimit), human_bytes(kMostRepairLimit))});
  Transaction transaction(store_.kv);
  RepairLimit::store(transaction, wanted);
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), {}, transaction)));
  limit_.set(wanted);
  if (wanted == 0) {
    log::info("repairs are not limited by the cluster any more");
  } else {
    log::info("repairs may send and receive {} a second at each server", human_bytes(wanted));
  }
  co_return Status{};
}

}  // namespace kintsugi::metaserver
