// SLH-DSA (FIPS 205): key generation, signing and verification of a batch. One thread runs one hash after the other; what
// follows from each other only by way of a root runs side by side.
//
//   keygen  Begin -> Chains -> Compress -> Level (h' times) -> Finish
//   sign    Begin -> trees of FORS, some at a time: ForsLeaves -> Level (a times); Compress to the FORS key
//                 -> layers of the hypertree, some at a time, from the lowest: Chains -> Compress -> Level (h' times) -> Reveal
//                 -> as verification, from WalkFors on
//   verify  Begin -> WalkFors -> Compress -> WalkLayer (d times) -> Finish
//
// The trees of all layers follow from SK.seed and the message's digest alone: a WOTS+ signature is all that needs the root
// of the layer below. So Chains keeps every value of the chains of the key that signs, and Reveal takes from them, once
// the root is there, those that its digits say. Signatures are verified before they leave: Finish says whether one ends in
// PK.root.
//
// Kernels are of a hash family and n: of the s and the f set, which differ in h, d, h', a and k.
// Secret are SK.seed, SK.prf, opt_rand, and the values of chains and of FORS leaves that no signature reveals.
#pragma once

#include "frame.cuh"
#include "slh_hash.cuh"

namespace gabion {

enum SlhTask : uint32_t { SLH_KEYGEN, SLH_SIGN, SLH_VERIFY };
// What the leaves, nodes or inputs of a launch are: of trees of the hypertree, of FORS, or of FORS on the walk.
enum SlhKind : uint32_t { SLH_HYPERTREE, SLH_FORS, SLH_WALK };

// Words of an operation in `indices`: k leaves of FORS, then idx_tree, the low half first, and idx_leaf (Algorithm 19).
static constexpr unsigned SLH_INDICES = 40, SLH_TREE = 36, SLH_LEAF = 38;
// Bytes of an operation in `room`: the digest first.
static constexpr unsigned SLH_ROOM = 64 + 256;
// Operations of a block of WalkLayer, at most.
static constexpr unsigned SLH_OF_WALK = 16;

// Where a batch of `n` operations lies. Every address but `messages` is a multiple of 16. Values have n bytes each; a
// group is the trees of FORS or the layers from `first` on, `count` of them.
struct SlhArguments {
    const uint8_t *keys;     // `key_stride` bytes an op: SK.seed, SK.prf, PK.seed, PK.root; verification: from PK.seed on
    const uint8_t *opt_rand; // n bytes an op; null: PK.seed
    const uint8_t *messages; // formatted messages M', at any address
    const uint64_t *spans;   // of each op where M' begins in `messages`, and its length
    uint8_t *sig;            // signatures, one after the other
    uint8_t *context;        // SHA-2's states after PK.seed, 96 bytes an op
    uint8_t *room;           // SLH_ROOM bytes an op
    uint32_t *indices;       // SLH_INDICES words an op
    uint8_t *roots;          // [op][d + 1]: the FORS key, then the root of each layer
    uint8_t *fors_roots;     // [op][k]
    uint8_t *nodes;          // [op][group][2^(height + 1) - 1], the lowest level first
    uint8_t *ends;           // [op][group][2^h'][len], ends of chains; [op][len] on the walk
    uint8_t *table;          // [op][group][len][16], the chains of the keys that sign; null for key generation
    uint8_t *walk;           // [op], what the next layer signs
    uint32_t *status;        // a Verdict an op
    uint32_t n;
    uint32_t generation; // what the slot's owner tells its status words by
    uint32_t task;       // an SlhTask
    uint32_t kind;       // an SlhKind
    uint32_t key_stride, pk_offset;
    uint32_t d, h_prime, a, k; // FIPS 205, table 2
    uint32_t first, count;
    uint32_t level;   // of the nodes to make
    uint32_t of_walk; // operations of a block of WalkLayer, SLH_OF_WALK at most
};

// --- Places ---------------------------------------------------------------------------------------------------------

template <class F> GABION_FN const uint8_t *slh_pk(const SlhArguments &a, uint32_t op) {
    return a.keys + static_cast<size_t>(a.key_stride) * op + a.pk_offset;
}
template <class F> GABION_FN typename F::Key slh_key(const SlhArguments &a, uint32_t op) {
    return F::key(slh_pk<F>(a, op), a.context + static_cast<size_t>(F::CONTEXT) * op);
}

// Bytes of a FORS tree's part of a signature, and of a layer's.
template <class F> GABION_FN uint32_t slh_fors_bytes(const SlhArguments &a) { return (1 + a.a) * F::BYTES; }
template <class F> GABION_FN uint32_t slh_layer_bytes(const SlhArguments &a) { return (F::LEN + a.h_prime) * F::BYTES; }
template <class F> GABION_FN uint32_t slh_sig_bytes(const SlhArguments &a) {
    return F::BYTES + a.k * slh_fors_bytes<F>(a) + a.d * slh_layer_bytes<F>(a);
}
template <class F> GABION_FN uint8_t *slh_sig(const SlhArguments &a, uint32_t op) {
    return a.sig + static_cast<size_t>(slh_sig_bytes<F>(a)) * op;
}
template <class F> GABION_FN uint8_t *slh_fors_part(const SlhArguments &a, uint32_t op, uint32_t tree) {
    return slh_sig<F>(a, op) + F::BYTES + tree * slh_fors_bytes<F>(a);
}
template <class F> GABION_FN uint8_t *slh_layer_part(const SlhArguments &a, uint32_t op, uint32_t layer) {
    return slh_fors_part<F>(a, op, a.k) + layer * slh_layer_bytes<F>(a);
}
template <class F> GABION_FN uint8_t *slh_root(const SlhArguments &a, uint32_t op, uint32_t layer) {
    return a.roots + F::BYTES * (static_cast<size_t>(op) * (a.d + 1) + layer);
}

// Tree and leaf of the signature at a layer (Algorithm 12, lines 6 to 9).
struct SlhPlace {
    uint64_t tree;
    uint32_t leaf;
};
GABION_FN SlhPlace slh_place(const SlhArguments &a, uint32_t op, uint32_t layer) {
    const uint32_t *indices = a.indices + static_cast<size_t>(SLH_INDICES) * op;
    SlhPlace place{static_cast<uint64_t>(indices[SLH_TREE + 1]) << 32 | indices[SLH_TREE], indices[SLH_LEAF]};
    if (layer > 0) {
        // The tree has 64 bits at most: of those the last shift may take all.
        const uint64_t below = place.tree >> (a.h_prime * (layer - 1));
        place.leaf = static_cast<uint32_t>(below) & ((1u << a.h_prime) - 1);
        place.tree = below >> a.h_prime;
    }
    return place;
}
GABION_FN uint32_t slh_fors_leaf(const SlhArguments &a, uint32_t op, uint32_t tree) {
    return a.indices[static_cast<size_t>(SLH_INDICES) * op + tree];
}

// Digit `chain` of a message of n bytes and its checksum (Algorithm 7, lines 1 to 7). The message is public: a verifier works
// it out from the signature.
template <class F> GABION_FN uint32_t slh_digit(const uint8_t *message, uint32_t chain) {
    GABION_DECLASSIFY(message, F::BYTES);
    if (chain < 2 * F::BYTES)
        return message[chain / 2] >> (chain % 2 == 0 ? 4 : 0) & 15;
    uint32_t sum = 15 * 2 * F::BYTES;
#pragma unroll 1
    for (unsigned i = 0; i < F::BYTES; i++)
        sum -= (message[i] >> 4) + (message[i] & 15);
    return sum >> (4 * (F::LEN - 1 - chain)) & 15;
}

// A kernel with a thread for each of `Kernel::jobs` jobs of an operation, which is known at the launch. Fewer than 2^32 in all.
template <class Kernel> struct SlhPerThread {
    using Arguments = SlhArguments;
    using Shared = Nothing;
    static constexpr unsigned STEPS = 1, JOBS = BLOCK;
    template <unsigned STEP> static GABION_FN void step(const SlhArguments &a, Shared &, Position at) {
        const uint32_t job = at.block * BLOCK + at.thread, of_op = Kernel::jobs(a);
        if (job < a.n * of_op)
            Kernel::run(a, job / of_op, job % of_op);
    }
};

// --- Messages -------------------------------------------------------------------------------------------------------

// toInt (Algorithm 2).
GABION_FN uint64_t slh_integer(const uint8_t *bytes, uint32_t count) {
    uint64_t x = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < count; i++)
        x = x << 8 | bytes[i];
    return x;
}

// The states of SHA-2; R, and the digest with what it says (Algorithm 19, lines 1 to 13; Algorithm 20, lines 6 to 14).
template <class F> struct SlhBegin : SlhPerThread<SlhBegin<F>> {
    static GABION_FN uint32_t jobs(const SlhArguments &) { return 1; }
    static GABION_FN void run(const SlhArguments &a, uint32_t op, uint32_t) {
        const uint8_t *pk = slh_pk<F>(a, op);
        GABION_DECLASSIFY(pk, (a.task == SLH_KEYGEN ? 1 : 2) * F::BYTES); // PK.seed and PK.root are the public key.
        F::prepare(pk, a.context + static_cast<size_t>(F::CONTEXT) * op);
        uint32_t *indices = a.indices + static_cast<size_t>(SLH_INDICES) * op;
        if (a.task == SLH_KEYGEN) {
            indices[SLH_TREE] = indices[SLH_TREE + 1] = indices[SLH_LEAF] = 0;
            return;
        }
        const uint64_t *span = a.spans + 2 * static_cast<size_t>(op);
        uint8_t *digest = a.room + static_cast<size_t>(SLH_ROOM) * op;
        const bool signs = a.task == SLH_SIGN;
        const uint8_t *sk_prf = signs ? a.keys + static_cast<size_t>(a.key_stride) * op + F::BYTES : nullptr;
        const uint8_t *opt_rand = a.opt_rand == nullptr ? pk : a.opt_rand + F::BYTES * static_cast<size_t>(op);
        F::hash_message(SlhMessage{sk_prf, opt_rand, pk, a.messages + span[0], static_cast<uint32_t>(span[1]), slh_sig<F>(a, op),
                                   digest, digest + 64});

        // base_2b (Algorithm 4): the highest bits first.
        uint32_t bits = 0, total = 0;
        const uint8_t *next = digest;
#pragma unroll 1
        for (uint32_t tree = 0; tree < a.k; tree++) {
#pragma unroll 1
            for (; bits < a.a; bits += 8)
                total = total << 8 | *next++;
            bits -= a.a;
            indices[tree] = total >> bits & ((1u << a.a) - 1);
        }
        const uint32_t tree_bits = (a.d - 1) * a.h_prime, tree_bytes = (tree_bits + 7) / 8;
        next = digest + (a.k * a.a + 7) / 8;
        const uint64_t tree = slh_integer(next, tree_bytes) & (~static_cast<uint64_t>(0) >> (64 - tree_bits));
        const uint64_t leaf = slh_integer(next + tree_bytes, (a.h_prime + 7) / 8);
        indices[SLH_TREE] = static_cast<uint32_t>(tree);
        indices[SLH_TREE + 1] = static_cast<uint32_t>(tree >> 32);
        indices[SLH_LEAF] = static_cast<uint32_t>(leaf) & ((1u << a.h_prime) - 1);
    }
};

// --- Trees ----------------------------------------------------------------------------------------------------------

// Leaves of FORS (Algorithms 14 and 15); the secrets that the signature reveals go there (Algorithm 16, line 3).
template <class F> struct SlhForsLeaves : SlhPerThread<SlhForsLeaves<F>> {
    static GABION_FN uint32_t jobs(const SlhArguments &a) { return a.count << a.a; }
    static GABION_FN void run(const SlhArguments &a, uint32_t op, uint32_t job) {
        const uint32_t index = job & ((1u << a.a) - 1), group = job >> a.a, tree = a.first + group;
        const SlhPlace place = slh_place(a, op, 0);
        const typename F::Key key = slh_key<F>(a, op);
        typename F::Value value = F::load(a.keys + static_cast<size_t>(a.key_stride) * op);
        SlhAddress address{0, place.tree, FORS_PRF, place.leaf, 0, (tree << a.a) + index};
#pragma unroll 1
        for (unsigned step = 0; step < 2; step++) {
            value = F::f(key, address, value);
            if (step == 0 && index == slh_fors_leaf(a, op, tree)) {
                uint8_t *secret = slh_fors_part<F>(a, op, tree);
                F::store(secret, value);
                GABION_DECLASSIFY(secret, F::BYTES);
            }
            address.type = FORS_TREE;
        }
        F::store(a.nodes + F::BYTES * ((static_cast<size_t>(op) * a.count + group) * ((2u << a.a) - 1) + index), value);
    }
};

// Chains of WOTS+ keys, from their secrets to their ends (Algorithm 6), of all leaves.
template <class F> struct SlhChains : SlhPerThread<SlhChains<F>> {
    static GABION_FN uint32_t jobs(const SlhArguments &a) { return (a.count << a.h_prime) * F::LEN; }
    static GABION_FN void run(const SlhArguments &a, uint32_t op, uint32_t job) {
        const uint32_t chain = job % F::LEN, key_pair = job / F::LEN;
        const uint32_t leaf = key_pair & ((1u << a.h_prime) - 1), group = key_pair >> a.h_prime;
        const SlhPlace place = slh_place(a, op, a.first + group);
        const bool signs = a.table != nullptr && leaf == place.leaf;
        uint8_t *row = a.table + F::BYTES * 16 * ((static_cast<size_t>(op) * a.count + group) * F::LEN + chain);
        const typename F::Key key = slh_key<F>(a, op);
        typename F::Value value = F::load(a.keys + static_cast<size_t>(a.key_stride) * op);
        // PRF, then F fifteen times: two turns of one loop, so that there is one copy of the code.
#pragma unroll 1
        for (unsigned turn = 0; turn < 2; turn++) {
            SlhAddress address{a.first + group, place.tree, turn == 0 ? WOTS_PRF : WOTS_HASH, leaf, chain, 0};
            const unsigned steps = turn == 0 ? 1 : 15;
#pragma unroll 1
            for (unsigned step = 0; step < steps; step++) {
                address.hash = step;
                value = F::f(key, address, value);
                if (signs) {
                    F::store(row, value);
                    row += F::BYTES;
                }
            }
        }
        F::store(a.ends + F::BYTES * (static_cast<size_t>(op) * jobs(a) + job), value);
    }
};

// T_len of WOTS+ keys (Algorithm 6, lines 9 to 12), or T_k of the roots of FORS (Algorithm 17, lines 21 to 24).
template <class F> struct SlhCompress : SlhPerThread<SlhCompress<F>> {
    static GABION_FN uint32_t jobs(const SlhArguments &a) { return a.kind == SLH_HYPERTREE ? a.count << a.h_prime : 1; }
    static GABION_FN void run(const SlhArguments &a, uint32_t op, uint32_t job) {
        const bool is_leaf = a.kind == SLH_HYPERTREE;
        const uint32_t leaf = job & ((1u << a.h_prime) - 1), group = job >> a.h_prime;
        const SlhPlace place = slh_place(a, op, is_leaf ? a.first + group : 0);
        const SlhAddress address{is_leaf ? a.first + group : 0, place.tree, is_leaf ? WOTS_PK : FORS_ROOTS,
                                 is_leaf ? leaf : place.leaf,   0,          0};
        const uint32_t count = is_leaf ? F::LEN : a.k;
        const uint8_t *values = (is_leaf ? a.ends : a.fors_roots) + F::BYTES * count * (static_cast<size_t>(op) * jobs(a) + job);
        uint8_t *out = a.kind == SLH_WALK ? a.walk + F::BYTES * static_cast<size_t>(op) : slh_root<F>(a, op, 0);
        if (is_leaf)
            out = a.nodes + F::BYTES * ((static_cast<size_t>(op) * a.count + group) * ((2u << a.h_prime) - 1) + leaf);
        F::store(out, F::t(slh_key<F>(a, op), address, values, count));
    }
};

// Nodes of a level from those below (Algorithm 9, lines 6 to 11; Algorithm 15, lines 7 to 12), what authentication paths
// take of the level below, and at the top the root.
template <class F> struct SlhLevel : SlhPerThread<SlhLevel<F>> {
    static GABION_FN uint32_t jobs(const SlhArguments &a) { return a.count << (height(a) - a.level); }
    static GABION_FN void run(const SlhArguments &a, uint32_t op, uint32_t job) {
        const bool is_fors = a.kind == SLH_FORS;
        const uint32_t up = height(a) - a.level, index = job & ((1u << up) - 1), group = job >> up, number = a.first + group;
        const SlhPlace place = slh_place(a, op, is_fors ? 0 : number);
        const SlhAddress address{is_fors ? 0 : number,
                                 place.tree,
                                 is_fors ? FORS_TREE : TREE,
                                 is_fors ? place.leaf : 0,
                                 a.level,
                                 (is_fors ? number << up : 0) + index};
        uint8_t *nodes = a.nodes + F::BYTES * (static_cast<size_t>(op) * a.count + group) * ((2u << height(a)) - 1);
        // Below a level of 2^up nodes are 2^height + ... + 2^(up + 1) ones, of which the last 2^(up + 1) are children.
        const uint32_t below = (2u << height(a)) - (2u << up);
        const uint8_t *children = nodes + F::BYTES * (below - (2u << up) + 2 * index);
        const typename F::Value left = F::load(children), right = F::load(children + F::BYTES);
        const typename F::Value parent = F::h(slh_key<F>(a, op), address, left, right);
        F::store(nodes + F::BYTES * (below + index), parent);

        if (a.task == SLH_SIGN) {
            const uint32_t leaf = is_fors ? slh_fors_leaf(a, op, number) : place.leaf;
            if (leaf >> a.level == index) {
                uint8_t *path = is_fors ? slh_fors_part<F>(a, op, number) + F::BYTES
                                        : slh_layer_part<F>(a, op, number) + F::BYTES * F::LEN;
                path += F::BYTES * (a.level - 1);
                if (leaf >> (a.level - 1) & 1)
                    F::store(path, left);
                else
                    F::store(path, right);
                GABION_DECLASSIFY(path, F::BYTES);
            }
        }
        if (up == 0)
            F::store(is_fors ? a.fors_roots + F::BYTES * (static_cast<size_t>(op) * a.k + number) : slh_root<F>(a, op, number + 1),
                     parent);
    }

  private:
    static GABION_FN uint32_t height(const SlhArguments &a) { return a.kind == SLH_FORS ? a.a : a.h_prime; }
};

// WOTS+ signatures (Algorithm 7) out of the values of their chains.
template <class F> struct SlhReveal : SlhPerThread<SlhReveal<F>> {
    static GABION_FN uint32_t jobs(const SlhArguments &a) { return a.count * F::LEN; }
    static GABION_FN void run(const SlhArguments &a, uint32_t op, uint32_t job) {
        const uint32_t chain = job % F::LEN, layer = a.first + job / F::LEN;
        const uint32_t digit = slh_digit<F>(slh_root<F>(a, op, layer), chain);
        const uint8_t *row = a.table + F::BYTES * 16 * (static_cast<size_t>(op) * jobs(a) + job);
        uint8_t *out = slh_layer_part<F>(a, op, layer) + F::BYTES * chain;
        F::store(out, F::load(row + F::BYTES * digit));
        GABION_DECLASSIFY(out, F::BYTES);
    }
};

// --- The walk from a signature to the root --------------------------------------------------------------------------

// From a node to the root by an authentication path (Algorithm 11, lines 8 to 18; Algorithm 17, lines 7 to 18). `index` is
// the node's at level 0, and `first` what comes before it in FORS.
template <class F>
GABION_FN typename F::Value slh_climb(const typename F::Key &key, SlhAddress address, typename F::Value node, const uint8_t *path,
                                      uint32_t height, uint32_t index, uint32_t first) {
#pragma unroll 1
    for (uint32_t level = 0; level < height; level++) {
        const typename F::Value sibling = F::load(path + F::BYTES * level);
        typename F::Value left = node, right = sibling;
        if (index >> level & 1)
            left = sibling, right = node;
        address.chain = level + 1;
        address.hash = (first + index) >> (level + 1);
        node = F::h(key, address, left, right);
    }
    return node;
}

// Roots of FORS from the signature (Algorithm 17, lines 1 to 20).
template <class F> struct SlhWalkFors : SlhPerThread<SlhWalkFors<F>> {
    static GABION_FN uint32_t jobs(const SlhArguments &a) { return a.k; }
    static GABION_FN void run(const SlhArguments &a, uint32_t op, uint32_t tree) {
        const SlhPlace place = slh_place(a, op, 0);
        const uint32_t index = slh_fors_leaf(a, op, tree), first = tree << a.a;
        const typename F::Key key = slh_key<F>(a, op);
        const uint8_t *part = slh_fors_part<F>(a, op, tree);
        const SlhAddress address{0, place.tree, FORS_TREE, place.leaf, 0, first + index};
        const typename F::Value leaf = F::f(key, address, F::load(part));
        F::store(a.fors_roots + F::BYTES * (static_cast<size_t>(op) * a.k + tree),
                 slh_climb<F>(key, address, leaf, part + F::BYTES, a.a, index, first));
    }
};

// Adds to a word that a block shares; what it was.
GABION_FN uint32_t slh_add(uint32_t &word, uint32_t more) {
#if defined(__CUDA_ARCH__)
    return atomicAdd(&word, more);
#else
    const uint32_t was = word;
    word += more;
    return was;
#endif
}

// xmss_pkFromSig (Algorithm 11) of layer `first`: `walk` goes from what the layer signs to its root.
//
// Chains have 15 steps less their digit, and a warp takes as long as its longest one. So a block has the chains of many
// operations, sorted by what they take, the longest first; a thread whose chain has ended takes the next one. Digits are public.
template <class F> struct SlhWalkLayer {
    using Arguments = SlhArguments;
    static constexpr unsigned STEPS = 6, JOBS = SLH_OF_WALK;
    struct Shared {
        uint32_t next[17];            // of each digit where its next chain goes; then of all chains the next one to take
        uint16_t order[JOBS * F::LEN]; // chains, by their digits
        uint8_t digit[JOBS * F::LEN];
    };

    template <unsigned STEP> static GABION_FN void step(const SlhArguments &a, Shared &shared, Position at) {
        const uint32_t begin = at.block * a.of_walk, lanes = a.n - begin < a.of_walk ? a.n - begin : a.of_walk;
        const uint32_t jobs = lanes * F::LEN;
        if constexpr (STEP == 0) {
            if (at.thread < 17)
                shared.next[at.thread] = 0;
        } else if constexpr (STEP == 1) {
            for (uint32_t job = at.thread; job < jobs; job += BLOCK) {
                const uint32_t digit = slh_digit<F>(message(a, begin + job / F::LEN), job % F::LEN);
                shared.digit[job] = static_cast<uint8_t>(digit);
                slh_add(shared.next[digit], 1);
            }
        } else if constexpr (STEP == 2) {
            if (at.thread == 0) {
                uint32_t sum = 0;
                for (unsigned digit = 0; digit < 16; digit++) {
                    const uint32_t count = shared.next[digit];
                    shared.next[digit] = sum;
                    sum += count;
                }
            }
        } else if constexpr (STEP == 3) {
            for (uint32_t job = at.thread; job < jobs; job += BLOCK) {
                const uint32_t digit = shared.digit[job];
                shared.order[slh_add(shared.next[digit], 1)] = static_cast<uint16_t>(job);
                if (digit == 15)
                    F::store(end(a, begin, job), F::load(value(a, begin, job)));
            }
        } else if constexpr (STEP == 4) {
            chains(a, shared, begin);
        } else if (at.thread < lanes) {
            leaf_to_root(a, begin + at.thread);
        }
    }

  private:
    static GABION_FN uint8_t *message(const SlhArguments &a, uint32_t op) { return a.walk + F::BYTES * static_cast<size_t>(op); }
    static GABION_FN const uint8_t *value(const SlhArguments &a, uint32_t begin, uint32_t job) {
        return slh_layer_part<F>(a, begin + job / F::LEN, a.first) + F::BYTES * (job % F::LEN);
    }
    static GABION_FN uint8_t *end(const SlhArguments &a, uint32_t begin, uint32_t job) {
        return a.ends + F::BYTES * (static_cast<size_t>(begin) * F::LEN + job);
    }

    // Chains (Algorithm 8, lines 8 to 13) until there are none.
    static GABION_FN void chains(const SlhArguments &a, Shared &shared, uint32_t begin) {
        // Where the chains of digit 14 end; those of digit 15 have no step.
        const uint32_t total = shared.next[14];
        uint32_t job = 0, step = 15;
        typename F::Key key{};
        typename F::Value current{};
        SlhAddress address{};
#pragma unroll 1
        while (true) {
            if (step == 15) {
                const uint32_t taken = slh_add(shared.next[16], 1);
                if (taken >= total)
                    break;
                job = shared.order[taken];
                step = shared.digit[job];
                const uint32_t op = begin + job / F::LEN;
                const SlhPlace place = slh_place(a, op, a.first);
                key = slh_key<F>(a, op);
                current = F::load(value(a, begin, job));
                address = SlhAddress{a.first, place.tree, WOTS_HASH, place.leaf, job % F::LEN, 0};
            }
            address.hash = step;
            current = F::f(key, address, current);
            step++;
            if (step == 15)
                F::store(end(a, begin, job), current);
        }
    }

    static GABION_FN void leaf_to_root(const SlhArguments &a, uint32_t op) {
        const SlhPlace place = slh_place(a, op, a.first);
        const typename F::Key key = slh_key<F>(a, op);
        const typename F::Value leaf = F::t(key, SlhAddress{a.first, place.tree, WOTS_PK, place.leaf, 0, 0},
                                            end(a, op, 0), F::LEN);
        const uint8_t *path = slh_layer_part<F>(a, op, a.first) + F::BYTES * F::LEN;
        F::store(message(a, op), slh_climb<F>(key, SlhAddress{a.first, place.tree, TREE, 0, 0, 0}, leaf, path, a.h_prime,
                                              place.leaf, 0));
    }
};

// The verdict: whether the walk ended in PK.root, and for signatures first whether PK.root belongs to SK.seed at all. Of key
// generation that it is done.
template <class F> struct SlhFinish : SlhPerThread<SlhFinish<F>> {
    static GABION_FN uint32_t jobs(const SlhArguments &) { return 1; }
    static GABION_FN void run(const SlhArguments &a, uint32_t op, uint32_t) {
        Verdict verdict = OK;
        if (a.task != SLH_KEYGEN) {
            const uint8_t *pk_root = slh_pk<F>(a, op) + F::BYTES, *walk = a.walk + F::BYTES * static_cast<size_t>(op);
            GABION_DECLASSIFY(walk, F::BYTES); // Anyone works it out from the signature.
            if (!equal(walk, pk_root))
                verdict = INVALID_SIGNATURE;
            if (a.task == SLH_SIGN) {
                const uint8_t *root = slh_root<F>(a, op, a.d);
                GABION_DECLASSIFY(root, F::BYTES); // The public key that belongs to SK.seed.
                if (!equal(root, pk_root))
                    verdict = INVALID_KEY;
            }
        }
        a.status[op] = status_word(verdict, a.generation);
    }

  private:
    static GABION_FN bool equal(const uint8_t *x, const uint8_t *y) {
        uint64_t difference = 0;
#pragma unroll
        for (unsigned i = 0; i < F::BYTES; i += 8)
            difference |= load64(x + i) ^ load64(y + i);
        return difference == 0;
    }
};

} // namespace gabion
