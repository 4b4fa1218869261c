// What a put or get of a tree consists of, found out before the first byte moves.
#include <algorithm>
#include <filesystem>

#include "client/cli/transfer.h"

namespace kintsugi::cli {

namespace fs = std::filesystem;

Result<std::string> Transfer::put_target(const std::string& source, const std::string& destination,
                                         bool into_directory) {
  if (!into_directory) return trimmed(destination);
  if (source == "-") return Status{Code::kInvalidArgument, "standard input needs a file name as destination"};
  std::error_code error;
  // Like cp: "." and "dir/.." are named after what they are.
  std::string name = base_name(source);
  if (name.empty() || name == "." || name == "..") name = fs::canonical(source, error).filename().string();
  if (name.empty())
    return Status{Code::kInvalidArgument, fmt::format("{}: has no name to store it under", source)};
  return join(trimmed(destination), name);
}

namespace {

uint32_t mode_of(const fs::file_status& status) {
  return static_cast<uint32_t>(status.permissions()) & 07777;
}

std::string kind_of(const fs::file_status& status) {
  switch (status.type()) {
    case fs::file_type::symlink: return "symbolic link";
    case fs::file_type::fifo: return "pipe";
    case fs::file_type::socket: return "socket";
    case fs::file_type::block:
    case fs::file_type::character: return "device";
    default: return "not a file or directory";
  }
}

}  // namespace

/// Symbolic links named on the command line are followed; those met inside a tree are skipped with a
/// complaint, as are pipes, sockets and devices.
Status Transfer::plan_put(const std::string& source, const std::string& target, TransferPlan& plan) {
  std::error_code error;
  const fs::file_status status = source == "-" ? fs::file_status{} : fs::status(source, error);
  if (error) return status_from_errno(error.value(), source);
  if (source == "-" || !fs::is_directory(status)) {
    const uint64_t bytes = fs::is_regular_file(status) ? fs::file_size(source, error) : 0;
    plan.files.push_back({source, target, bytes});
    plan.bytes += bytes;
    return {};
  }
  plan.directories.push_back({source, target, mode_of(status)});
  for (size_t i = plan.directories.size() - 1; i < plan.directories.size(); ++i) {
    const TransferItem directory = plan.directories[i];
    fs::directory_iterator entries(directory.local, error), end;
    if (error) {
      session_.complain(describe(status_from_errno(error.value(), directory.local)));
      continue;
    }
    std::vector<fs::path> paths;
    for (; entries != end; entries.increment(error))
      paths.push_back(entries->path());
    if (error)  // what could not be listed must not go missing unsaid
      session_.complain(describe(status_from_errno(error.value(), directory.local)));
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      const std::string remote = join(directory.remote, path.filename().string());
      const fs::file_status entry = fs::symlink_status(path, error);
      if (fs::is_directory(entry)) {
        plan.directories.push_back({path.string(), remote, mode_of(entry)});
      } else if (fs::is_regular_file(entry)) {
        const uint64_t bytes = fs::file_size(path, error);
        plan.files.push_back({path.string(), remote, error ? 0 : bytes});
        plan.bytes += plan.files.back().bytes;
      } else {
        session_.complain(fmt::format("{}: {}, skipped", path.string(), kind_of(entry)));
      }
    }
  }
  return {};
}

asio::awaitable<Status> Transfer::plan_get(std::string source, std::string target, TransferPlan& plan) {
  KINTSUGI_CO_ASSIGN(const proto::Attributes attributes, co_await client_.async().stat(source));
  std::error_code error;
  if (fs::is_directory(target, error) && !base_name(source).empty())
    target = join(trimmed(target), base_name(source));
  if (attributes.type() == proto::Attributes::FILE) {
    plan.files.push_back({target, source, attributes.size()});
    plan.bytes += attributes.size();
    co_return Status{};
  }
  plan.directories.push_back({target, source, attributes.mode()});
  for (size_t i = 0; i < plan.directories.size(); ++i) {
    const TransferItem directory = plan.directories[i];
    std::string after;
    while (true) {
      KINTSUGI_CO_ASSIGN(const proto::ListResponse page,
                         co_await client_.async().list(directory.remote, after));
      for (const proto::DirectoryEntry& entry : page.entries()) {
        const proto::Attributes& found = entry.attributes();
        const bool is_directory = found.type() == proto::Attributes::DIRECTORY;
        TransferItem item{join(directory.local, entry.name()), join(directory.remote, entry.name()),
                          is_directory ? found.mode() : found.size()};
        if (!is_directory) plan.bytes += found.size();
        (is_directory ? plan.directories : plan.files).push_back(std::move(item));
        after = entry.name();
      }
      if (!page.more() || page.entries().empty()) break;
    }
  }
  co_return Status{};
}

Status Transfer::make_local_directories(const TransferPlan& plan) {
  for (size_t i = 0; i < plan.directories.size(); ++i) {
    const TransferItem& directory = plan.directories[i];
    std::error_code error;
    const bool made = fs::create_directory(directory.local, error);
    if (error) return status_from_errno(error.value(), directory.local);
    if (!made && !options_.replace && !(i == 0 && base_name(directory.remote).empty())) {
      return {Code::kAlreadyExists, directory.local + ": already exists"};
    }
    // Writable for the owner at least, or nothing could be put into it.
    const auto mode = static_cast<fs::perms>((directory.bytes & 07777) | 0700);
    if (made) fs::permissions(directory.local, mode, error);
    if (error) return status_from_errno(error.value(), directory.local);
  }
  return {};
}

}  // namespace kintsugi::cli
