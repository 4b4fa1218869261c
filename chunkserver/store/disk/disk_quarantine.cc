#include "chunkserver/store/disk/disk_quarantine.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "common/log/log.h"

namespace kintsugi::chunkserver {
namespace {

/// 0: the name is not one that was given here.
uint64_t number_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return 0;
  uint64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + dot + 1, end, number);
  return parsed.ec == std::errc{} && parsed.ptr == end && number < UINT64_MAX ? number : 0;
}

}  // namespace

asio::awaitable<Status> DiskQuarantine::load() {
  KINTSUGI_CO_ASSIGN(const std::vector<std::string> names, co_await disk_.list(directory_));
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const std::string& name : names) {
    if (const uint64_t number = number_of(name); number != 0) found.emplace_back(number, name);
  }
  std::ranges::sort(found);
  kept_.clear();
  bytes_ = 0;
  for (auto& [number, name] : found) {
    next_number_ = std::max(next_number_, number + 1);
    co_await keep(number, fmt::format("{}/{}", directory_, name));
  }
  co_await remove_oldest();
  co_return Status{};
}

asio::awaitable<Result<std::string>> DiskQuarantine::take(std::string path, std::string name) {
  const uint64_t number = next_number_++;
  const std::string to = fmt::format("{}/{}.{}", directory_, name, number);
  KINTSUGI_CO_TRY(co_await disk_.rename(std::move(path), to));
  co_await keep(number, to);
  co_await remove_oldest();
  co_return to;
}

asio::awaitable<void> DiskQuarantine::keep(uint64_t number, std::string path) {
  const auto attributes = co_await disk_.attributes(path);
  const uint64_t bytes = attributes ? attributes->bytes : 0;
  // Another file may have been taken meanwhile.
  const auto place = std::ranges::upper_bound(kept_, number, {}, &Kept::number);
  kept_.insert(place, {number, std::move(path), bytes});
  bytes_ += bytes;
}

asio::awaitable<void> DiskQuarantine::remove_oldest() {
  while (kept_.size() > kMostFiles || (bytes_ > kMostBytes && kept_.size() > 1)) {
    Kept oldest = std::move(kept_.front());
    kept_.pop_front();
    bytes_ -= oldest.bytes;
    const Status removed = co_await disk_.remove(oldest.path);
    if (removed.ok()) {
      log::warning("{} was removed, because the quarantine keeps at most {} files and {} GiB", oldest.path,
                   kMostFiles, kMostBytes >> 30);
    } else if (removed.code() != Code::kNotFound) {  // kNotFound: somebody has tidied the file up
      log::warning("{} cannot be removed from quarantine: {}", oldest.path, removed.to_string());
      bytes_ += oldest.bytes;
      kept_.push_front(std::move(oldest));
      co_return;  // tried again when the next file is quarantined
    }
  }
}

}  // namespace kintsugi::chunkserver
