#include "metaserver/service/history_service.h"

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kStatus{"metaserver.metadata_status"};
constexpr sight::Site kAccept{"metaserver.accept_metadata"};
constexpr sight::Site kListQuarantine{"metaserver.list_quarantine", {}, {"chunks"}};
constexpr sight::Site kChange{"metaserver.change_quarantine", {}, {"chunks"}};

}  // namespace

void HistoryService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&HistoryService::metadata_status>(Method::kMetadataStatus, *this);
  server.handle<&HistoryService::accept_metadata>(Method::kAcceptMetadata, *this);
  server.handle<&HistoryService::list_quarantine>(Method::kListQuarantine, *this);
  server.handle<&HistoryService::change_quarantine>(Method::kChangeQuarantine, *this);
}

asio::awaitable<Status> HistoryService::metadata_status(Context context, const Empty&,
                                                        proto::MetadataStatusResponse& response) {
  sight::Module module{context, kStatus};
  response.mutable_mark()->set_epoch(chunks_.history.epoch());
  response.mutable_mark()->set_position(chunks_.history.position());
  response.set_starts(static_cast<uint32_t>(chunks_.history.starts()));
  if (const auto& doubt = chunks_.history.doubt()) {
    *response.mutable_doubt() = *doubt;
    *response.mutable_doubt()->mutable_server() = servers_.of(ServerId{doubt->server_id()});
  }
  response.set_quarantined_chunks(chunks_.quarantine.count());
  response.set_format(store_.format);
  response.set_newest_format(proto::kNewestFormat);
  co_return module.finish(co_await store_.finish_read(module.context()));
}

asio::awaitable<Status> HistoryService::accept_metadata(Context context, const Empty&, Empty&) {
  sight::Module module{context, kAccept};
  Transaction transaction(store_.kv);
  const Status accepted = chunks_.history.accept(transaction);
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), accepted, transaction)));
  log::warning("an operator accepted this metadata as it is: deletions continue");
  co_return Status{};
}

asio::awaitable<Status> HistoryService::list_quarantine(Context context,
                                                        const proto::ListQuarantineRequest& request,
                                                        proto::ListQuarantineResponse& response) {
  sight::Module module{context, kListQuarantine};
  response = chunks_.quarantine.list(store_.kv, request);
  for (proto::QuarantinedChunk& chunk : *response.mutable_chunks())
    *chunk.mutable_server() = servers_.of(ServerId{chunk.server_id()});
  module.output(0, response.chunks_size());
  co_return module.finish(co_await store_.finish_read(module.context()));
}

asio::awaitable<Status> HistoryService::change_quarantine(Context context,
                                                          const proto::ChangeQuarantineRequest& request,
                                                          proto::ChangeQuarantineResponse& response) {
  sight::Module module{context, kChange};
  const bool empty = request.change() == proto::ChangeQuarantineRequest::EMPTY;
  if (empty && chunks_.history.doubt()) {
    const Status refused{Code::kConflict,
                         "the metadata is in doubt: decide on that first (see `kintsugi metadata status`)"};
    co_return module.finish(co_await store_.finish_read(module.context(), refused));
  }
  std::string from;
  do {
    Transaction transaction(store_.kv);
    std::vector<ServerId> servers;
    const uint64_t changed = chunks_.quarantine.change(transaction, request.change(),
                                                       StripeId{request.stripe_id()}, from, servers);
    response.set_chunks(response.chunks() + changed);
    KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), {}, transaction)));
    for (ServerId server : servers)
      chunks_.garbage.wake(server);
  } while (!from.empty());
  if (request.stripe_id() != 0 && response.chunks() == 0) {
    co_return module.finish(
        {Code::kNotFound, fmt::format("no chunk of stripe {} is in quarantine", request.stripe_id())});
  }
  if (empty)
    log::warning("an operator emptied the quarantine of {} chunks: they are deleted now", response.chunks());
  module.output(0, static_cast<double>(response.chunks()));
  co_return Status{};
}

}  // namespace kintsugi::metaserver
