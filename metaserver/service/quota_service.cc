#include "metaserver/service/quota_service.h"

#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kSetQuota{"metaserver.set_quota"};
constexpr sight::Site kGetQuotas{"metaserver.get_quotas"};
constexpr sight::Site kListQuotas{"metaserver.list_quotas"};

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
  Transaction transaction(state_.store);
  std::optional<uint64_t> max_bytes, max_files;
  if (request.has_max_bytes()) max_bytes = request.max_bytes();
  if (request.has_max_files()) max_files = request.max_files();
  const Status set = state_.quotas.set(transaction, request.path(), max_bytes, max_files);
  co_return module.finish(co_await state_.finish(module.context(), set, transaction));
}

asio::awaitable<Status> QuotaService::get(Context context, const proto::GetQuotasRequest& request,
                                          proto::GetQuotasResponse& response) {
  sight::Module module{context, kGetQuotas};
  const Transaction transaction(state_.store);
  Result<InodeId> id = InodeId{request.inode()};
  if (request.inode() == 0) {
    const auto found = state_.names.stat(transaction.store(), request.path());
    id = found ? Result<InodeId>(InodeId{found->inode()}) : found.error();
  }
  const Status found = id ? extract(Quotas::at(transaction, *id), response) : id.error();
  co_return module.finish(co_await state_.finish_read(found));
}

asio::awaitable<Status> QuotaService::list(Context context, const proto::ListQuotasRequest& request,
                                           proto::ListQuotasResponse& response) {
  sight::Module module{context, kListQuotas};
  response = Quotas::list(state_.store, request.after(), request.limit());
  co_return module.finish(co_await state_.finish_read());
}

}  // namespace kintsugi::metaserver
