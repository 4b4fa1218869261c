#include "client/cli/transfer.h"

#include <filesystem>
#include <set>

#include <boost/asio/thread_pool.hpp>
#include <unistd.h>

#include "client/cli/file_window.h"
#include "client/cli/json.h"
#include "client/cli/local_sink.h"
#include "client/cli/local_source.h"
#include "client/cli/paths.h"
#include "client/cli/progress.h"
#include "client/cli/transfer_plan.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargeFilesAtOnce = 16;
constexpr uint64_t kSmallFileBytes = 64 << 10;  ///< larger files are moved by streams, and take more memory
constexpr size_t kDiskThreads = 4;

/// Threads for local files. Joined at the end: what they were given refers to sources and sinks that are gone then.
class DiskThreads {
 public:
  ~DiskThreads() { threads_.join(); }
  asio::thread_pool& get() { return threads_; }

 private:
  asio::thread_pool threads_{kDiskThreads};
};

/// Moves the files of one plan. Use once.
class Transfer {
 public:
  using MoveOne = asio::awaitable<Status> (Transfer::*)(const TransferFile&);

  Transfer(Session& session, client::BlockingClient& client, const TransferOptions& options,
           const char* label, const TransferPlan& plan)
      : session_(session),
        client_(client),
        options_(options),
        plan_(plan),
        progress_(label, plan.bytes()),
        ended_(client.runtime().runtime()) {}

  /// Moves all files, then reports.
  void run(MoveOne move);

  asio::awaitable<Status> put_one(const TransferFile& file);
  asio::awaitable<Status> get_one(const TransferFile& file);

 private:
  asio::awaitable<void> move_all(MoveOne move);
  asio::awaitable<void> move_file(MoveOne move, const TransferFile& file);
  bool has_room_for(const TransferFile& file) const;
  std::function<void(uint64_t)> count_bytes();

  Session& session_;
  client::BlockingClient& client_;
  const TransferOptions& options_;
  const TransferPlan& plan_;
  DiskThreads threads_;
  Progress progress_;
  // Plain numbers, because all files are moved on the client's one thread.
  FileWindow window_;
  size_t small_files_ = 0, large_files_ = 0;  ///< files that are being moved now
  size_t moved_files_ = 0;
  runtime::Event ended_;  ///< notified when the transfer of a file has ended
};

void Transfer::run(MoveOne move) {
  client_.run(move_all(move));
  if (!session_.json || session_.interrupted()) return;
  print_json({{"files", moved_files_},
              {"directories", plan_.directories().size()},
              {"bytes", progress_.bytes()},
              {"seconds", progress_.seconds()},
              {"failed", session_.complaints()}});
}

bool is_small(const TransferFile& file) {
  return file.bytes <= kSmallFileBytes && file.local != "-";
}

bool Transfer::has_room_for(const TransferFile& file) const {
  return is_small(file) ? small_files_ < window_.size() : large_files_ < kLargeFilesAtOnce;
}

asio::awaitable<void> Transfer::move_all(MoveOne move) {
  runtime::TaskGroup moving(client_.runtime().runtime());
  for (const TransferFile& file : plan_.files()) {
    while (!has_room_for(file))
      co_await ended_.wait();
    if (session_.interrupted()) break;
    ++(is_small(file) ? small_files_ : large_files_);
    moving.spawn(move_file(move, file));
  }
  co_await moving.join();
}

asio::awaitable<void> Transfer::move_file(MoveOne move, const TransferFile& file) {
  runtime::Clock& clock = client_.runtime().runtime().clock;
  const TimePoint began = clock.now();
  const Status status = co_await (this->*move)(file);
  if (status.ok()) {
    ++moved_files_;
  } else {
    session_.complain(status);
  }
  if (is_small(file)) window_.record(clock.now() - began);
  --(is_small(file) ? small_files_ : large_files_);
  ended_.notify_all();
}

std::function<void(uint64_t)> Transfer::count_bytes() {
  return [this](uint64_t bytes) { progress_.add(bytes); };
}

asio::awaitable<Status> Transfer::put_one(const TransferFile& file) {
  KINTSUGI_CO_ASSIGN(const auto source,
                     LocalSource::open(file.local, threads_.get(), session_.interruption_descriptor()));
  client::WriteOptions options;
  options.mode = source->mode();
  options.modified_ns = source->modified_ns();
  options.uid = ::getuid();
  options.gid = ::getgid();
  options.replace = options_.replace;
  options.policy = options_.policy;
  options.progress = count_bytes();
  auto written = co_await client_.async().write(file.remote, *source, std::move(options));
  co_return written ? Status{} : written.error();
}

asio::awaitable<Status> Transfer::get_one(const TransferFile& file) {
  KINTSUGI_CO_ASSIGN(const auto sink,
                     LocalSink::create(file.local, file.bytes, options_.replace, threads_.get()));
  client::ReadOptions options;
  options.progress = count_bytes();
  KINTSUGI_CO_ASSIGN(const proto::Attributes attributes,
                     co_await client_.async().read(file.remote, *sink, std::move(options)));
  co_return co_await sink->finish(attributes.mode(), attributes.modified_ns());
}

// ---- directories are made before the files in them

asio::awaitable<Status> make_remote_directories(client::Client& client, const TransferPlan& plan,
                                                bool replace) {
  for (const TransferDirectory& directory : plan.directories()) {
    Status made = co_await client.make_directory(directory.remote, false, directory.mode);
    const bool merged = replace && made.code() == Code::kAlreadyExists;
    if (!made.ok() && !merged) co_return made;
  }
  co_return Status{};
}

Status make_local_directories(const TransferPlan& plan, bool replace) {
  for (const TransferDirectory& directory : plan.directories()) {
    std::error_code error;
    const bool made = fs::create_directory(directory.local, error);
    if (error) return status_from_errno(error.value(), directory.local);
    // The cluster's root has no name of its own: its contents go into the directory that was named.
    const bool is_root = base_name(directory.remote).empty();
    if (!made && !replace && !is_root)
      return {Code::kAlreadyExists, directory.local + " exists already (--replace merges into it)"};
    // Writable for the owner at least, or nothing could be put into it.
    const auto mode = static_cast<fs::perms>((directory.mode & 07777) | 0700);
    if (made) fs::permissions(directory.local, mode, error);
    if (error) return status_from_errno(error.value(), directory.local);
  }
  return {};
}

/// Before anything is sent: kAlreadyExists when there is something at the path.
Status check_free(client::BlockingClient& client, const std::string& path) {
  const auto there = client.stat(path);
  if (there) return {Code::kAlreadyExists, path + " exists already (--replace replaces it)"};
  return there.error().code() == Code::kNotFound ? Status{} : there.error();
}

asio::awaitable<Status> cat_all(Session& session, client::Client& client,
                                const std::vector<std::string>& paths, asio::thread_pool& threads) {
  const auto sink = LocalSink::standard_output(threads);
  for (const std::string& path : paths) {
    auto read = co_await client.read(path, *sink);
    // Writing failed: nobody reads standard output any more.
    if (!read && read.error().code() == Code::kIoError) co_return read.error();
    if (!read) session.complain(read.error());
  }
  co_return Status{};
}

/// kInvalidArgument when another source has the place already: one would overwrite the other.
Status take_place(std::set<std::string>& taken, const std::string& target) {
  if (taken.insert(target).second) return {};
  return {Code::kInvalidArgument, fmt::format("two sources would become {}", target)};
}

}  // namespace

Status put(Session& session, client::BlockingClient& client, const std::vector<std::string>& sources,
           const std::string& destination, const TransferOptions& options) {
  KINTSUGI_TRY(check_remote(destination));
  const auto there = client.stat(destination);
  if (!there && there.error().code() != Code::kNotFound) return there.error();
  const bool into_directory = there && there->type() == proto::Attributes::DIRECTORY;
  if (sources.size() > 1 && !into_directory) {
    return {Code::kNotDirectory,
            fmt::format("{} is not a directory, but there are several sources", destination)};
  }
  std::vector<Result<std::string>> targets;
  for (const std::string& source : sources)
    targets.push_back(put_target(source, destination, into_directory));
  std::set<std::string> taken;
  for (const Result<std::string>& target : targets)
    if (target) KINTSUGI_TRY(take_place(taken, *target));
  TransferPlan plan;
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string& source = sources[i];
    const Result<std::string>& target = targets[i];
    Status status = target ? check_new_name(*target) : target.error();
    if (status.ok() && !options.replace) status = check_free(client, *target);
    if (status.ok())
      status = plan.add_put(source, *target,
                            [&](Code code, std::string_view what) { session.complain(code, what); });
    if (!status.ok()) session.complain(status);
  }
  Transfer transfer(session, client, options, "put", plan);
  KINTSUGI_TRY(client.run(make_remote_directories(client.async(), plan, options.replace)));
  transfer.run(&Transfer::put_one);
  return {};
}

Status get(Session& session, client::BlockingClient& client, const std::vector<std::string>& sources,
           const std::string& destination, const TransferOptions& options) {
  for (const std::string& source : sources)
    KINTSUGI_TRY(check_remote(source));
  std::error_code ignored;  // of a path that is not there, too
  if (sources.size() > 1 && !fs::is_directory(destination, ignored)) {
    return {Code::kNotDirectory,
            fmt::format("{} is not a directory, but there are several sources", destination)};
  }
  std::set<std::string> taken;
  for (const std::string& source : sources)
    KINTSUGI_TRY(take_place(taken, join(destination, base_name(trimmed(source)))));
  TransferPlan plan;
  const TransferPlan::Complain complain = [&](Code code, std::string_view what) {
    session.complain(code, what);
  };
  for (const std::string& source : sources) {
    const Status added = client.run(plan.add_get(client.async(), trimmed(source), destination, complain));
    if (added.code() == Code::kUnavailable) return added;  // as with the next one
    if (!added.ok()) session.complain(added);
  }
  Transfer transfer(session, client, options, "get", plan);
  KINTSUGI_TRY(make_local_directories(plan, options.replace));
  transfer.run(&Transfer::get_one);
  return {};
}

Status cat(Session& session, client::BlockingClient& client, const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    KINTSUGI_TRY(check_remote(path));
  DiskThreads threads;
  return client.run(cat_all(session, client.async(), paths, threads.get()));
}

}  // namespace kintsugi::cli
