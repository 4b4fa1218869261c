#include "metaserver/kv/store_check.h"

#include <algorithm>

#include <rocksdb/db.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

#include "common/log/log.h"

namespace kintsugi::metaserver {

StoreCheck::StoreCheck(std::shared_ptr<rocksdb::DB> db, Duration interval)
    : db_(std::move(db)), interval_(interval) {
  if (interval_ > Duration::zero()) thread_ = std::thread([this] { run(); });
}

StoreCheck::~StoreCheck() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StoreCheck::run() {
  for (Duration wait = std::min(interval_, kFirst); pause(wait); wait = interval_) {
    if (!check_all()) return;
  }
}

bool StoreCheck::check_all() {
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  uint64_t damaged = 0;
  for (const rocksdb::LiveFileMetaData& file : files) {
    const std::string path = file.db_path + file.name;
    rocksdb::SstFileReader reader{rocksdb::Options()};
    rocksdb::Status status = reader.Open(path);
    if (status.ok()) status = reader.VerifyChecksum();
    // A file that is gone was compacted meanwhile.
    if (!status.ok() && !status.IsPathNotFound() && !status.IsNotFound()) {
      damaged_files_ = std::max(damaged_files_.load(), ++damaged);
      log::error(
          "metadata store: {} is damaged: {}; the metaserver ends as soon as it needs that part: restore the "
          "file "
          "from a copy before that, see docs/runbooks/metadata_store.md",
          path, status.ToString());
    }
    if (!pause(std::chrono::duration_cast<Duration>(
            std::chrono::duration<double>(static_cast<double>(file.size) / kBytesPerSecond))))
      return false;
  }
  damaged_files_ = damaged;
  ++checks_;
  if (damaged == 0) log::info("metadata store: the checksums of all {} table files are right", files.size());
  return true;
}

bool StoreCheck::pause(Duration time) {
  std::unique_lock lock(mutex_);
  return !stopping_.wait_for(lock, time, [this] { return stop_; });
}

}  // namespace kintsugi::metaserver
