#include "client/lib/client.h"

#include "client/lib/check/deep_check.h"
#include "client/lib/resources.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kRead{"client.read"};
constexpr int kMaxReadAttempts = 4;  ///< attempts to read a file that is replaced all the time

}  // namespace

Client::Client(const runtime::Runtime& runtime, Options options, rpc::Secret secret)
    : Client(std::make_unique<ClusterClient>(runtime, std::move(options), secret)) {}

Client::Client(std::unique_ptr<ClusterClient> cluster)
    : PathOperations(*cluster),
      DirectoryRules(*cluster),
      ClusterOperations(*cluster),
      Diagnosis(*cluster),
      cluster_(std::move(cluster)) {}

Client::~Client() = default;

Context Client::context() const {
  return cluster_->context();
}

asio::awaitable<Result<proto::Attributes>> Client::write(std::string path, Source& source,
                                                         WriteOptions options) {
  FileWriter writer(cluster_->resources(), context(), std::move(path), source, std::move(options));
  proto::Attributes written;
  KINTSUGI_CO_TRY(co_await writer.run(written));
  co_return written;
}

asio::awaitable<Result<proto::Attributes>> Client::read(std::string path, Sink& sink, ReadOptions options) {
  sight::Task task(context(), kRead);
  Status status;
  for (int attempt = 0; attempt < kMaxReadAttempts; ++attempt) {
    FileReader reader(cluster_->resources(), task.context(), {.path = path}, sink, options);
    proto::Attributes attributes;
    KINTSUGI_CO_TRY(task.finish(co_await reader.open(attributes)));
    status = co_await reader.run();
    if (status.ok()) co_return attributes;
    // The sink has nothing yet of a file that was replaced: it may have all of the one that took its place.
    if (status.code() != Code::kConflict || reader.delivered()) break;
  }
  co_return task.finish(std::move(status));
}

asio::awaitable<Result<size_t>> Client::read_at(std::string path, uint64_t offset,
                                                std::span<std::byte> into) {
  if (into.empty()) co_return size_t{0};
  MemorySink sink(into);
  const auto attributes = co_await read(std::move(path), sink, {.offset = offset, .length = into.size()});
  if (!attributes) co_return attributes.error();
  co_return sink.filled();
}

asio::awaitable<Result<DegradedReadReport>> Client::read_lost_chunk(uint64_t stripe_id, uint32_t index,
                                                                    Sink& sink, LostReadOptions options) {
  KINTSUGI_CO_ASSIGN(proto::ShowStripeResponse shown, co_await show_stripe(stripe_id));
  LostChunkRead read(cluster_->resources(), context(), std::move(*shown.mutable_stripe()), index,
                     std::move(options), sink);
  KINTSUGI_CO_TRY(co_await read.run());
  co_return read.report();
}

std::unique_ptr<OpenFiles> Client::open_files(FilesOptions options, std::unique_ptr<DirtyMemory> memory,
                                              ChangeJournal* journal, std::span<std::byte> name_log,
                                              std::span<std::byte> own_locks) {
  return std::make_unique<OpenFiles>(cluster_->resources(), options, std::move(memory), journal, name_log,
                                     own_locks);
}

asio::awaitable<Result<DeepCheckReport>> Client::deep_check(std::string path, DeepCheckOptions options) {
  DeepCheck check(cluster_->resources(), context(), std::move(path), std::move(options));
  DeepCheckReport report;
  KINTSUGI_CO_TRY(co_await check.run(report));
  co_return report;
}

void Client::cancel() {
  cluster_->cancel();
}

asio::awaitable<void> Client::stop() {
  return cluster_->stop();
}

}  // namespace kintsugi::client
