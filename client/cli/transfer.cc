#include "client/cli/transfer.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "client/cli/format.h"
#include "client/cli/local_file.h"

namespace kintsugi::cli {

Transfer::Transfer(Session& session, client::BlockingClient& client, TransferOptions options)
    : session_(session), client_(client), options_(std::move(options)), threads_(kDiskThreads) {}

Transfer::~Transfer() {
  threads_.join();
}

std::function<void(uint64_t)> Transfer::progress() {
  return [this](uint64_t bytes) { progress_->add(bytes); };
}

void Transfer::report(const TransferPlan& plan) const {
  if (!session_.json) return;
  print_json({{"files", moved_files_},
              {"directories", plan.directories.size()},
              {"bytes", progress_->bytes()},
              {"seconds", progress_->seconds()},
              {"failed", plan.files.size() - moved_files_}});
}

// ---- many files at once
// ---------------------------------------------------------------------------------------------

asio::awaitable<void> Transfer::move_all(const TransferPlan& plan, MoveOne move) {
  runtime::TaskGroup workers(client_.runtime().runtime());
  const size_t count = std::min(kParallelFiles, plan.files.size());
  for (size_t i = 0; i < count; ++i)
    workers.spawn(worker(plan, move));
  co_await workers.join();
}

asio::awaitable<void> Transfer::worker(const TransferPlan& plan, MoveOne move) {
  while (next_file_ < plan.files.size()) {
    const TransferItem& item = plan.files[next_file_++];
    const Status status = co_await (this->*move)(item);
    if (status.ok()) {
      ++moved_files_;
    } else {
      session_.complain(describe(status));
    }
  }
}

asio::awaitable<Status> Transfer::put_one(const TransferItem& item) {
  KINTSUGI_CO_ASSIGN(const auto source, LocalSource::open(item.local, threads_));
  client::WriteOptions options;
  options.mode = source->mode();
  options.modified_ns = source->modified_ns();
  options.uid = ::getuid();
  options.gid = ::getgid();
  options.replace = options_.replace;
  options.policy = options_.policy;
  options.progress = progress();
  auto written = co_await client_.async().write(item.remote, *source, std::move(options));
  co_return written ? Status{} : written.error();
}

asio::awaitable<Status> Transfer::get_one(const TransferItem& item) {
  KINTSUGI_CO_ASSIGN(const auto sink, LocalSink::create(item.local, options_.replace, threads_));
  client::ReadOptions options;
  options.progress = progress();
  KINTSUGI_CO_ASSIGN(const proto::Attributes attributes,
                     co_await client_.async().read(item.remote, *sink, std::move(options)));
  co_return sink->finish(attributes.mode(), attributes.modified_ns());
}

asio::awaitable<Status> Transfer::cat_all(std::vector<std::string> paths) {
  const auto sink = LocalSink::standard_output(threads_);
  for (const std::string& path : paths) {
    auto read = co_await client_.async().read(path, *sink);
    if (!read && read.error().code() == Code::kIoError) co_return read.error();  // nobody listens
    if (!read) session_.complain(describe(read.error()));
  }
  co_return Status{};
}

Status Transfer::cat(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    KINTSUGI_TRY(check_remote(path));
  return client_.run(cat_all(paths));
}

// ---- put
// ------------------------------------------------------------------------------------------------------------

Status Transfer::put(const std::vector<std::string>& sources, const std::string& destination) {
  KINTSUGI_TRY(check_remote(destination));
  auto there = client_.stat(destination);
  if (!there && there.error().code() != Code::kNotFound) return there.error();
  const bool into_directory = there && there->type() == proto::Attributes::DIRECTORY;
  if (sources.size() > 1 && !into_directory) {
    return {Code::kNotDirectory,
            fmt::format("{}: is not a directory, but there are several sources", destination)};
  }
  TransferPlan plan;
  for (const std::string& source : sources) {
    auto target = put_target(source, destination, into_directory);
    Status status = target ? check_free(*target) : target.error();
    if (status.ok()) status = plan_put(source, *target, plan);
    if (!status.ok()) session_.complain(describe(status));
  }
  progress_ = std::make_unique<Progress>("put", plan.bytes);
  KINTSUGI_TRY(client_.run(make_remote_directories(plan)));
  client_.run(move_all(plan, &Transfer::put_one));
  report(plan);
  progress_.reset();
  return {};
}

Status Transfer::check_free(const std::string& target) {
  if (options_.replace) return {};
  const auto there = client_.stat(target);
  if (there) return {Code::kAlreadyExists, target + ": already exists"};
  return there.error().code() == Code::kNotFound ? Status{} : there.error();
}

asio::awaitable<Status> Transfer::make_remote_directories(const TransferPlan& plan) {
  for (const TransferItem& directory : plan.directories) {
    Status made = co_await client_.async().make_directory(directory.remote, false,
                                                          static_cast<uint32_t>(directory.bytes));
    const bool merged = options_.replace && made.code() == Code::kAlreadyExists;
    if (!made.ok() && !merged) co_return made;
  }
  co_return Status{};
}

// ---- get
// ------------------------------------------------------------------------------------------------------------

Status Transfer::get(const std::string& source, const std::string& destination) {
  KINTSUGI_TRY(check_remote(source));
  TransferPlan plan;
  KINTSUGI_TRY(client_.run(plan_get(trimmed(source), destination, plan)));
  progress_ = std::make_unique<Progress>("get", plan.bytes);
  KINTSUGI_TRY(make_local_directories(plan));
  client_.run(move_all(plan, &Transfer::get_one));
  report(plan);
  progress_.reset();
  return {};
}

}  // namespace kintsugi::cli
