#include "client/lib/chunk_reports.h"

#include "common/log/log.h"
#include "common/proto/meta.pb.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReport{"client.report_chunk"};
constexpr Duration kReportLimit = 5s;

asio::awaitable<void> send(MetaLink& meta, Context context, proto::ReportChunkRequest request) {
  const sight::Task task(context, kReport);
  proto::Empty nothing;
  (void)co_await meta.call_once(task.context(), rpc::Method::kReportChunk, request, nothing, kReportLimit);
}

}  // namespace

void ChunkReports::report(Context context, ChunkId chunk, ServerId server, const Status& found) {
  if (reported_.size() >= kMaxReported || !reported_.insert(chunk).second) return;
  log::warning("{}", found.to_string());
  proto::ReportChunkRequest request;
  request.set_stripe_id(chunk.stripe.value);
  request.set_index(chunk.index);
  request.set_server_id(server.value);
  request.set_corrupt(found.code() == Code::kCorrupt);
  request.set_detail(found.message());
  background_.spawn(send(meta_, context, std::move(request)));
}

}  // namespace kintsugi::client
