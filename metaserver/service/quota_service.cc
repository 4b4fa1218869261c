#include "metaserver/service/quota_service.h"

#include "metaserver/namespace/requests.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kSetQuota{"metaserver.set_quota"};
constexpr sight::Site kGetQuotas{"metaserver.get_quotas"};
constexpr sight::Site kListQuotas{"metaserver.list_quotas"};

constexpr int kStepsAtOnce = 16;

}  // namespace

void QuotaService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&QuotaService::set>(Method::kSetQuota, *this);
  server.handle<&QuotaService::get>(Method::kGetQuotas, *this);
  server.handle<&QuotaService::list>(Method::kListQuotas, *this);
}

asio::awaitable<Status> QuotaService::set(Context context, const proto::SetQuotaRequest& request,
                                          proto::Empty&) {
  sight::Module module{context, kSetQuota};
  KINTSUGI_CO_TRY(module.finish(check_root(Caller::from(request.caller()))));
  if (request_carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  // Leases are of what no quota holds.
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.below(module.context(), request.path())));
  Transaction transaction(store_.kv);
  std::optional<uint64_t> max_bytes, max_files;
  if (request.has_max_bytes()) max_bytes = request.max_bytes();
  if (request.has_max_files()) max_files = request.max_files();
  Status set = names_.quotas.set(transaction, request.path(), max_bytes, max_files);
  if (set.ok()) note_request(transaction, request.change());
  set = co_await store_.finish(module.context(), set, transaction);
  // What is small is counted when the answer comes; the rest is the background task's.
  for (int step = 0; set.ok() && step < kStepsAtOnce; ++step) {
    Transaction more(store_.kv);
    if (!names_.quotas.mark_step(more)) break;
    (void)names_.quotas.account(more, false);
    set = co_await store_.finish(module.context(), {}, more);
  }
  co_return module.finish(set);
}

asio::awaitable<Status> QuotaService::get(Context context, const proto::GetQuotasRequest& request,
                                          proto::GetQuotasResponse& response) {
  sight::Module module{context, kGetQuotas};
  const Transaction transaction(store_.kv);
  Result<InodeId> id = InodeId{request.inode()};
  if (request.inode() == 0) {
    const auto found = names_.tree.stat(transaction.store(), request.path());
    id = found ? Result<InodeId>(InodeId{found->inode()}) : found.error();
  }
  const Status found = id ? extract(Quotas::at(transaction, *id), response) : id.error();
  co_return module.finish(co_await store_.finish_read(module.context(), found));
}

asio::awaitable<Status> QuotaService::list(Context context, const proto::ListQuotasRequest& request,
                                           proto::ListQuotasResponse& response) {
  sight::Module module{context, kListQuotas};
  response = Quotas::list(store_.kv, request.after(), request.limit());
  co_return module.finish(co_await store_.finish_read(module.context()));
}

}  // namespace kintsugi::metaserver
