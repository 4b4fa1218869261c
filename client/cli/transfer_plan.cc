#include "client/cli/transfer_plan.h"

#include <algorithm>
#include <filesystem>

#include "client/cli/paths.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

uint32_t mode_of(const fs::file_status& status) {
  return static_cast<uint32_t>(status.permissions()) & 07777;
}

const char* kind_of(const fs::file_status& status) {
  switch (status.type()) {
    case fs::file_type::symlink: return "symbolic link";
    case fs::file_type::fifo: return "pipe";
    case fs::file_type::socket: return "socket";
    case fs::file_type::block:
    case fs::file_type::character: return "device";
    default: return "special file";
  }
}

const char* kind_of(proto::Attributes::Type type) {
  switch (type) {
    case proto::Attributes::SYMLINK: return "symbolic link";
    case proto::Attributes::FIFO: return "pipe";
    case proto::Attributes::SOCKET: return "socket";
    case proto::Attributes::BLOCK_DEVICE:
    case proto::Attributes::CHARACTER_DEVICE: return "device";
    default: return "special file";
  }
}

}  // namespace

Result<std::string> put_target(const std::string& source, const std::string& destination,
                               bool into_directory) {
  if (!into_directory) return trimmed(destination);
  if (source == "-") return Status{Code::kInvalidArgument, "standard input needs a file name as destination"};
  std::error_code error;
  // Like cp: "." and "dir/.." are named after what they are.
  std::string name = base_name(source);
  if (name.empty() || name == "." || name == "..") name = fs::canonical(source, error).filename().string();
  if (name.empty())
    return Status{Code::kInvalidArgument, fmt::format("{} has no name to store it under", source)};
  return join(trimmed(destination), name);
}

void TransferPlan::add_file(std::string local, std::string remote, uint64_t bytes) {
  files_.push_back({std::move(local), std::move(remote), bytes});
  bytes_ += bytes;
}

// ---- put

Status TransferPlan::add_put(const std::string& source, const std::string& target, const Complain& complain) {
  std::error_code error;
  const fs::file_status status = source == "-" ? fs::file_status{} : fs::status(source, error);
  if (error) return status_from_errno(error.value(), source);
  if (source == "-") {
    add_file(source, target, 0);
    return {};
  }
  if (fs::is_regular_file(status)) {
    add_file(source, target, fs::file_size(source, error));
    return {};
  }
  if (!fs::is_directory(status)) {
    return {Code::kInvalidArgument,
            fmt::format("{} is a {}, and only files and directories are stored (- stores "
                        "standard input)",
                        source, kind_of(status))};
  }
  directories_.push_back({source, target, mode_of(status)});
  // Directories that are found are appended and visited in their turn, so that parents come first.
  for (size_t i = directories_.size() - 1; i < directories_.size(); ++i)
    add_local_entries(directories_[i], complain);
  return {};
}

void TransferPlan::add_local_entries(TransferDirectory directory, const Complain& complain) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entries(directory.local, error), end; !error && entries != end;
       entries.increment(error))
    paths.push_back(entries->path());
  // A directory that could not be listed, or not to its end, must not go missing unsaid.
  if (const Status failed = status_from_errno(error.value(), directory.local); error)
    complain(failed.code(), describe(failed));
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    std::string remote = join(directory.remote, path.filename().string());
    const fs::file_status entry = fs::symlink_status(path, error);
    if (fs::is_directory(entry)) {
      directories_.push_back({path.string(), std::move(remote), mode_of(entry)});
    } else if (fs::is_regular_file(entry)) {
      const uint64_t bytes = fs::file_size(path, error);
      add_file(path.string(), std::move(remote), error ? 0 : bytes);
    } else {
      complain(Code::kNotSupported, fmt::format("{}: {}, skipped", path.string(), kind_of(entry)));
    }
  }
}

// ---- get

asio::awaitable<Status> TransferPlan::add_get(client::Client& client, std::string source, std::string target,
                                              const Complain& complain) {
  const auto found = co_await client.stat(source);
  if (!found && found.error().code() == Code::kNotFound)
    co_return Status{Code::kNotFound, found.error().message() + " in the cluster"};
  if (!found) co_return found.error();
  const proto::Attributes& attributes = *found;
  std::error_code error;
  if (fs::is_directory(target, error) && !base_name(source).empty())
    target = join(trimmed(target), base_name(source));
  if (attributes.type() == proto::Attributes::FILE) {
    add_file(std::move(target), std::move(source), attributes.size());
    co_return Status{};
  }
  directories_.push_back({std::move(target), std::move(source), attributes.mode()});
  for (size_t i = directories_.size() - 1; i < directories_.size(); ++i)
    KINTSUGI_CO_TRY(co_await add_remote_entries(client, directories_[i], complain));
  co_return Status{};
}

asio::awaitable<Status> TransferPlan::add_remote_entries(client::Client& client, TransferDirectory directory,
                                                         const Complain& complain) {
  std::string after;
  while (true) {
    KINTSUGI_CO_ASSIGN(const proto::ListResponse page, co_await client.list(directory.remote, after));
    for (const proto::DirectoryEntry& entry : page.entries()) {
      const proto::Attributes& found = entry.attributes();
      std::string local = join(directory.local, entry.name()), remote = join(directory.remote, entry.name());
      if (found.type() == proto::Attributes::DIRECTORY) {
        directories_.push_back({std::move(local), std::move(remote), found.mode()});
      } else if (found.type() == proto::Attributes::FILE) {
        add_file(std::move(local), std::move(remote), found.size());
      } else {
        complain(Code::kNotSupported, fmt::format("{}: {}, skipped", remote, kind_of(found.type())));
      }
      after = entry.name();
    }
    if (!page.more() || page.entries().empty()) co_return Status{};
  }
}

}  // namespace kintsugi::cli
