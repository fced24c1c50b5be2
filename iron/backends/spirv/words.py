"""The numbers of SPIR-V that Iron writes: instructions, their operands, and enumerants.

Source: the unified SPIR-V specification, sections 3.6 to 3.49, and GLSL.std.450.
"""

from __future__ import annotations

from enum import IntEnum

MAGIC = 0x07230203
VERSION = 0x00010500  # 1.5, that of Vulkan 1.2


class Code(IntEnum):
    """Instructions, without the leading `Op`."""

    Name = 5
    MemberName = 6
    String = 7
    Line = 8
    Extension = 10
    ExtInstImport = 11
    ExtInst = 12
    MemoryModel = 14
    EntryPoint = 15
    ExecutionMode = 16
    Capability = 17
    TypeVoid = 19
    TypeBool = 20
    TypeInt = 21
    TypeFloat = 22
    TypeVector = 23
    TypeArray = 28
    TypeRuntimeArray = 29
    TypeStruct = 30
    TypePointer = 32
    TypeFunction = 33
    ConstantTrue = 41
    ConstantFalse = 42
    Constant = 43
    Function = 54
    FunctionEnd = 56
    Variable = 59
    Load = 61
    Store = 62
    AccessChain = 65
    Decorate = 71
    MemberDecorate = 72
    CompositeConstruct = 80
    CompositeExtract = 81
    ConvertFToU = 109
    ConvertFToS = 110
    ConvertSToF = 111
    ConvertUToF = 112
    UConvert = 113
    SConvert = 114
    FConvert = 115
    Bitcast = 124
    SNegate = 126
    FNegate = 127
    IAdd = 128
    FAdd = 129
    ISub = 130
    FSub = 131
    IMul = 132
    FMul = 133
    UDiv = 134
    SDiv = 135
    FDiv = 136
    UMulExtended = 151
    SMulExtended = 152
    LogicalEqual = 164
    LogicalNotEqual = 165
    LogicalOr = 166
    LogicalAnd = 167
    LogicalNot = 168
    Select = 169
    IEqual = 170
    INotEqual = 171
    UGreaterThan = 172
    SGreaterThan = 173
    UGreaterThanEqual = 174
    SGreaterThanEqual = 175
    ULessThan = 176
    SLessThan = 177
    ULessThanEqual = 178
    SLessThanEqual = 179
    FOrdEqual = 180
    FUnordNotEqual = 183
    FOrdLessThan = 184
    FUnordLessThan = 185
    FOrdGreaterThan = 186
    FUnordGreaterThan = 187
    FOrdLessThanEqual = 188
    FOrdGreaterThanEqual = 190
    ShiftRightLogical = 194
    ShiftRightArithmetic = 195
    ShiftLeftLogical = 196
    BitwiseOr = 197
    BitwiseXor = 198
    BitwiseAnd = 199
    Not = 200
    BitFieldSExtract = 202
    BitReverse = 204
    BitCount = 205
    ControlBarrier = 224
    AtomicIAdd = 234
    AtomicSMin = 236
    AtomicUMin = 237
    AtomicSMax = 238
    AtomicUMax = 239
    AtomicAnd = 240
    AtomicOr = 241
    AtomicXor = 242
    Phi = 245
    LoopMerge = 246
    SelectionMerge = 247
    Label = 248
    Branch = 249
    BranchConditional = 250
    Return = 253
    GroupNonUniformBallot = 339
    GroupNonUniformShuffle = 345
    GroupNonUniformShuffleXor = 346
    SDot = 4450
    UDot = 4451
    SUDot = 4452
    TypeCooperativeMatrix = 4456
    CooperativeMatrixLoad = 4457
    CooperativeMatrixStore = 4458
    CooperativeMatrixMulAdd = 4459


class Capability(IntEnum):
    """What a module needs from a device."""

    Shader = 1
    Float16 = 9
    Float64 = 10
    Int64 = 11
    Int16 = 22
    Int8 = 39
    GroupNonUniform = 61
    GroupNonUniformBallot = 64
    GroupNonUniformShuffle = 65
    StorageBuffer16BitAccess = 4433
    StorageBuffer8BitAccess = 4448
    DenormPreserve = 4464
    SignedZeroInfNanPreserve = 4466
    RoundingModeRTE = 4467
    BFloat16Type = 5116
    BFloat16CooperativeMatrix = 5118
    VulkanMemoryModel = 5345
    DotProductInput4x8BitPacked = 6018
    DotProduct = 6019
    CooperativeMatrix = 6022


class Storage(IntEnum):
    """Storage classes."""

    Input = 1
    Uniform = 2
    Workgroup = 4
    PushConstant = 9
    StorageBuffer = 12


class Decoration(IntEnum):
    """Decorations."""

    Block = 2
    ArrayStride = 6
    BuiltIn = 11
    Aliased = 20
    Coherent = 23
    NonWritable = 24
    Binding = 33
    DescriptorSet = 34
    Offset = 35
    NoContraction = 42


class BuiltIn(IntEnum):
    """Built-in inputs of a compute shader."""

    NumWorkgroups = 24
    WorkgroupId = 26
    LocalInvocationIndex = 29
    SubgroupId = 40
    SubgroupLocalInvocationId = 41


class Mode(IntEnum):
    """Execution modes."""

    LocalSize = 17
    DenormPreserve = 4459
    SignedZeroInfNanPreserve = 4461
    RoundingModeRTE = 4462


class Glsl(IntEnum):
    """Instructions of GLSL.std.450."""

    RoundEven = 2
    Trunc = 3
    FAbs = 4
    Floor = 8
    Ceil = 9
    Exp2 = 29
    Sqrt = 31
    InverseSqrt = 32
    Fma = 50
    FindILsb = 73
    FindUMsb = 75


class Scope(IntEnum):
    """Who takes part."""

    Device = 1
    Workgroup = 2
    Subgroup = 3


RELAXED = 0x0
GROUP_MEMORY = 0x108  # acquire and release, of group memory
EVERYTHING = 0x148  # of storage buffers too

BYTES_OF_A_WORD = 0  # PackedVectorFormat4x8Bit
BFLOAT16 = 0  # an encoding of floats
GLCOMPUTE = 5
LOGICAL, GLSL450, VULKAN = 0, 1, 3

_TYPES = {
    Code.TypeVoid: "r",
    Code.TypeBool: "r",
    Code.TypeInt: "rnn",
    Code.TypeFloat: "rn*",
    Code.TypeVector: "rin",
    Code.TypeArray: "rii",
    Code.TypeRuntimeArray: "ri",
    Code.TypeStruct: "ri*",
    Code.TypePointer: "rSi",
    Code.TypeFunction: "ri*",
    Code.TypeCooperativeMatrix: "riiiii",
}
_MODULE = {
    Code.Name: "is",
    Code.MemberName: "ins",
    Code.String: "rs",
    Code.Line: "inn",
    Code.Extension: "s",
    Code.ExtInstImport: "rs",
    Code.MemoryModel: "nn",
    Code.EntryPoint: "nisi*",
    Code.ExecutionMode: "iMn*",
    Code.Capability: "C",
    Code.Decorate: "iDn*",
    Code.MemberDecorate: "inDn*",
    Code.ConstantTrue: "tr",
    Code.ConstantFalse: "tr",
    Code.Constant: "trx*",
    Code.Variable: "trS",
    Code.Function: "trni",
    Code.FunctionEnd: "",
}
_BODY = {
    Code.ExtInst: "triGi*",
    Code.Load: "trin*",
    Code.Store: "iin*",
    Code.CompositeExtract: "trin*",
    Code.ControlBarrier: "iii",
    Code.LoopMerge: "iin",
    Code.SelectionMerge: "in",
    Code.Label: "r",
    Code.Branch: "i",
    Code.BranchConditional: "iii",
    Code.Return: "",
    Code.CooperativeMatrixLoad: "triiin",
    Code.CooperativeMatrixStore: "iiiin",
    Code.CooperativeMatrixMulAdd: "triiin",
    Code.SDot: "triin",
    Code.UDot: "triin",
    Code.SUDot: "triin",
}
FORMS: dict[int, str] = {**_TYPES, **_MODULE, **_BODY}
"""Operands by kind where they are not a result type, a result and ids (`tri*`).

`t` result type, `r` result, `i` id, `n` number, `x` word of a constant, `s` string, and the
enumerants `C` capability, `S` storage class, `D` decoration, `M` mode, `G` GLSL instruction; `*`
repeats the last kind.
"""
DEFAULT_FORM = "tri*"
ENUMERANTS: dict[str, type[IntEnum]] = {
    "C": Capability,
    "S": Storage,
    "D": Decoration,
    "M": Mode,
    "G": Glsl,
}
