#include "common/runtime/tls/tls_credentials.h"

#include <sys/stat.h>

#include "common/log/log.h"
#include "common/runtime/tls/openssl_types.h"

namespace kintsugi::runtime {

TlsCredentials::Stamps TlsCredentials::stamps_of(const TlsFiles& files) {
  Stamps stamps;
  size_t next = 0;
  for (const std::string* path : {&files.certificate, &files.key, &files.authority}) {
    struct stat info{};
    Stamp& stamp = stamps[next++];
    if (::stat(path->c_str(), &info) != 0) continue;
    // The time of the last change of the inode: a mode that was put right counts, too.
    stamp = {.inode = info.st_ino,
             .bytes = static_cast<uint64_t>(info.st_size),
             .changed_ns = int64_t{info.st_ctim.tv_sec} * 1'000'000'000 + info.st_ctim.tv_nsec};
  }
  return stamps;
}

Result<std::shared_ptr<TlsCredentials>> TlsCredentials::load(TlsFiles files) {
  // Taken first: a file that changes meanwhile is read again.
  const Stamps stamps = stamps_of(files);
  KINTSUGI_ASSIGN(auto identity, TlsIdentity::load(files));
  return std::shared_ptr<TlsCredentials>(new TlsCredentials(std::move(files), stamps, std::move(identity)));
}

std::shared_ptr<const TlsIdentity> TlsCredentials::current(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (now < look_again_) return identity_;
  look_again_ = now + kLookInterval;
  const Stamps stamps = stamps_of(files_);
  if (stamps == stamps_) return identity_;
  stamps_ = stamps;
  auto identity = TlsIdentity::load(files_);
  if (identity) {
    identity_ = std::move(*identity);
    log::info("tls: new files were read: the certificate of {} is valid until {}", identity_->name(),
              date_text(identity_->expires()));
  } else {
    log::warning("tls: the files have changed and cannot be used, the former ones stay in use: {}",
                 identity.error().message());
  }
  return identity_;
}

}  // namespace kintsugi::runtime
