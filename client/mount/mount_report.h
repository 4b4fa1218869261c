/// A mount tells the monitor what it did, in the reports that it sends anyway.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "client/lib/files/open_files.h"
#include "common/proto/sight.pb.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::mount {

class MountReport {
 public:
  /// References outlive it.
  MountReport(const sight::Recorder& recorder, const client::OpenFiles& files, std::string directory)
      : recorder_(recorder), files_(files), directory_(std::move(directory)) {}

  /// Notes what the files say now. On their thread.
  void look();
  /// Adds what was noted last, and the operations. May be called from any thread.
  void tell(proto::SightReport& report) const;

 private:
  const sight::Recorder& recorder_;
  const client::OpenFiles& files_;
  const std::string directory_;
  mutable std::mutex mutex_;  ///< guards noted_
  client::OpenFiles::Traffic noted_{};
};

}  // namespace kintsugi::mount
