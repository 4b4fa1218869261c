/// Certificates of a small cluster in files, and simulated machines that use them.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "common/runtime/tls/certificate_authority.h"
#include "common/runtime/tls/openssl_types.h"
#include "common/runtime/tls/tls_credentials.h"
#include "common/runtime/tls/tls_network.h"
#include "tests/common/rpc_rig.h"

namespace kintsugi::runtime {

using namespace std::chrono_literals;

constexpr Duration kDay = 24h;

inline constexpr const char* kServer = "10.0.0.1";
inline constexpr const char* kClient = "10.0.0.2";

/// A directory with the files of one authority and of those whom it signed. The files go with it.
class CertificateFolder {
 public:
  explicit CertificateFolder(const std::string& authority, WallTime now = WallTime(19723 * kDay))
      : now_(now),
        authority_(*CertificateAuthority::make(authority, now - 10 * 365 * kDay, now + 10 * 365 * kDay)) {
    std::string name = ::testing::TempDir() + "/kintsugi_tls_XXXXXX";
    path_ = ::mkdtemp(name.data());
    write(path_ + "/authority.crt", authority_.own().certificate, 0644);
  }
  ~CertificateFolder() { std::filesystem::remove_all(path_); }
  CertificateFolder(const CertificateFolder&) = delete;
  CertificateFolder& operator=(const CertificateFolder&) = delete;

  /// Valid from a day ago for so long, from `begin` on if it is given. Without hosts it is a client's.
  TlsFiles issue(const std::string& name, std::vector<std::string> hosts, Duration valid = 30 * kDay,
                 std::optional<WallTime> begin = std::nullopt) {
    const WallTime from = begin.value_or(now_ - kDay);
    return write_pair(name, *authority_.issue({name, std::move(hosts), from, from + valid}));
  }
  /// The same, with this extended key usage ("serverAuth") in place of what the authority gives; empty: without one.
  TlsFiles issue_with_usage(const std::string& name, std::vector<std::string> hosts, const char* usage) {
    const CertifiedKey pair = *authority_.issue({name, std::move(hosts), now_ - kDay, now_ + 30 * kDay}),
                       signer = authority_.own();
    const OwnedBio certificate_text(BIO_new_mem_buf(pair.certificate.data(), -1)),
        key_text(BIO_new_mem_buf(signer.key.data(), -1)), changed(BIO_new(BIO_s_mem()));
    const OwnedCertificate certificate(PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr));
    const OwnedKey key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
    X509_EXTENSION_free(
        X509_delete_ext(certificate.get(), X509_get_ext_by_NID(certificate.get(), NID_ext_key_usage, -1)));
    if (*usage != 0) {
      X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_ext_key_usage, usage);
      X509_add_ext(certificate.get(), extension, -1);
      X509_EXTENSION_free(extension);
    }
    X509_sign(certificate.get(), key.get(), EVP_sha256());
    PEM_write_bio_X509(changed.get(), certificate.get());
    char* text = nullptr;
    const long length = BIO_get_mem_data(changed.get(), &text);
    return write_pair(name, {{text, static_cast<size_t>(length)}, pair.key});
  }
  /// One that nobody else signed.
  TlsFiles self_made(const std::string& name) {
    return write_pair(name, CertificateAuthority::make(name, now_ - kDay, now_ + kDay)->own());
  }
  /// From now on who reads the file of the authority refuses this certificate.
  void revoke(const TlsFiles& files) {
    std::stringstream certificate;
    certificate << std::ifstream(files.certificate).rdbuf();
    write(path_ + "/authority.crt",
          authority_.own().certificate + *authority_.revoke({certificate.str()}, now_ - kDay), 0644);
  }
  /// The simulator's time, or what was given.
  WallTime now() const { return now_; }

  static void write(const std::string& path, const std::string& text, mode_t mode) {
    std::ofstream(path + ".new") << text;
    ::chmod((path + ".new").c_str(), mode);
    std::filesystem::rename(path + ".new", path);
  }

 private:
  TlsFiles write_pair(const std::string& name, const CertifiedKey& pair) {
    TlsFiles files{path_ + "/" + name + ".crt", path_ + "/" + name + ".key", path_ + "/authority.crt"};
    write(files.certificate, pair.certificate, 0644);
    write(files.key, pair.key, 0600);
    return files;
  }

  const WallTime now_;
  CertificateAuthority authority_;
  std::string path_;
};

/// A simulated machine whose connections are encrypted; without files they are not.
struct SecureNode {
  SecureNode(simulation::Simulation& simulation, const std::string& name, const TlsFiles& files)
      : node(simulation, name),
        plain(node.runtime()),
        network(plain.network, plain.clock, *tls_policy(files, false)),
        runtime{plain.executor, plain.clock, network, plain.disk, plain.random, plain.faults} {}

  simulation::SimNode node;
  Runtime plain;
  TlsNetwork network;
  Runtime runtime;
};

}  // namespace kintsugi::runtime
